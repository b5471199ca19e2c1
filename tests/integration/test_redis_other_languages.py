"""The script for other languages on Redis refuses what the edge in Python refuses."""

from typing import Any

import pytest
import redis.asyncio

from packhorse.model.job import State
from tests.integration import texts
from tests.integration.keyspaces import KINDS, NONE, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

TAG = "{packhorse:packhorse}"
REFUSED = {
    "task": (b"caf\xe9", b"{}", b"{}"),
    "queue": (b"t", b"{}", b'{"queue":"caf\xe9"}'),
    "tenant": (b"t", b"{}", b'{"tenant":"\xed\xa0\x80"}'),
    "header": (b"t", b"{}", b'{"headers":{"a":"\xff"}}'),
    "number": (b"t", b"{}", b'{"headers":{"a":1e400}}'),
    **{args.decode("latin-1"): (b"t", args, b"{}") for args in texts.REFUSED},
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def enqueue(url: str, task: bytes, args: bytes, options: bytes) -> bytes:
    client = redis.asyncio.from_url(url.replace("valkey://", "redis://"))
    try:
        text: Any = await client.hget(f"{TAG}:scripts", "enqueue")
        return await client.eval(text, 1, TAG, "", "1", task, args, options)
    finally:
        await client.aclose()


@pytest.mark.parametrize("given", REFUSED.values(), ids=[ascii(name) for name in REFUSED])
async def test_what_python_would_refuse_is_refused(url, clock, given):
    async with opened(url, clock=clock) as store:
        with pytest.raises(redis.asyncio.ResponseError, match="PACKHORSE"):
            await enqueue(url, *given)

        assert await store.jobs.count() == {}


@pytest.mark.parametrize("args", texts.TAKEN, ids=ascii)
async def test_json_is_taken_and_kept_byte_for_byte(url, clock, args):
    async with opened(url, clock=clock) as store:
        made = await enqueue(url, b"t", args, b"{}")

        [job] = await store.jobs.get([bytes.fromhex(made.decode().replace("-", ""))])
        assert job.payload == args


@pytest.mark.parametrize(("task", "options"), texts.RESERVED)
async def test_names_that_are_kept_for_packhorse_are_refused(url, clock, task, options):
    async with opened(url, clock=clock) as store:
        with pytest.raises(
            redis.asyncio.ResponseError, match=r'begin with "packhorse\." are kept for Packhorse itself'
        ):
            await enqueue(url, task.encode(), b"{}", options.encode())

        assert await store.jobs.count() == {}


async def test_names_that_only_resemble_them_are_taken(url, clock):
    async with opened(url, clock=clock) as store:
        for task, options in texts.NOT_RESERVED:
            await enqueue(url, task.encode(), b"{}", options.encode())

        assert sum(sum(counts.values()) for counts in (await store.jobs.count()).values()) == len(texts.NOT_RESERVED)


@pytest.mark.parametrize("option", ["priority", "delay", "at"])
async def test_minus_zero_is_zero(url, clock, option):
    async with opened(url, clock=clock) as store:
        await enqueue(url, b"t", b"{}", b'{"%s":-0}' % option.encode())

        assert await store.jobs.count() == {"default": {State.READY: 1}}
