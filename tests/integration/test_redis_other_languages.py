"""The script for other languages on Redis refuses what the edge in Python refuses."""

from typing import Any

import pytest
import redis.asyncio

from tests.integration.keyspaces import KINDS, NONE, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

TAG = "{packhorse:packhorse}"
REFUSED = {
    "task": (b"caf\xe9", b"{}", b"{}"),
    "queue": (b"t", b"{}", b'{"queue":"caf\xe9"}'),
    "tenant": (b"t", b"{}", b'{"tenant":"\xed\xa0\x80"}'),
    "header": (b"t", b"{}", b'{"headers":{"a":"\xff"}}'),
    **{
        text.decode("latin-1"): (b"t", b'{"x":' + text + b"}", b"{}")
        for text in (
            b"NaN", b"-Infinity", b"inf", b"0x10", b"007", b"-01", b"1.", b".5", b"+1", b"1e", b"1.e5", b'"\xff"',
            b'"a\0b"', b'"a\nb"', b'"a\tb"', b'"\xc0\x80"', b'"\\ud800"',
        )
    },
}  # fmt: skip
TAKEN = (
    b"{}", b'{"x": [0, -0, 1.5, -10.25e-05, 1E+9, true, false, null, 100]}', b'{\n\t"x": "a\\nb \\" 007 NaN \\\\"}',
    '{"é": "ü€😀"}'.encode(), b'{"x": "0x10 .5 1."}', b'{"e": {"E": ["+", "-"]}}',
)  # fmt: skip


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


@pytest.mark.parametrize("args", TAKEN)
async def test_json_is_taken_and_kept_byte_for_byte(url, clock, args):
    async with opened(url, clock=clock) as store:
        made = await enqueue(url, b"t", args, b"{}")

        [job] = await store.jobs.get([bytes.fromhex(made.decode().replace("-", ""))])
        assert job.payload == args
