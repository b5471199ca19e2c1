"""A link that is slow, and one that falls silent, between a store and its server."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from packhorse.errors import OutcomeUnknown
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.stores.postgres import namespace as postgres
from packhorse.stores.redis import pool as redis
from packhorse.telemetry.emit import Telemetry
from tests import conftest
from tests.engine.factories import EventName, EventRecorder, Tasks, job, lease_ahead, worker
from tests.factories import Done, end, new, one, put_in, take
from tests.integration.torn import LONG
from tests.proxy import Proxy

KINDS = [kind for kind in conftest.kinds() if kind in conftest.SERVERS]
if not KINDS:
    pytest.skip("no store on a server is tested", allow_module_level=True)

RATE = 100_000_000 / 8  # bytes a second
SOON = 0.5  # seconds
MIB = 1 << 20


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server be silent for long."""
    monkeypatch.setattr(redis, "CALL_TIMEOUT_SECONDS", SOON)
    monkeypatch.setattr(postgres, "WORKER_CALL_SECONDS", SOON)


@pytest.fixture
async def near(kind: str, url: str) -> AsyncIterator[Store]:
    """The store beside its server."""
    made = open_store(url, namespace=conftest.namespace(kind))
    await made.migrate()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def link(near: Store, url: str) -> AsyncIterator[Proxy]:
    """A slow link to the same server: 1 MiB takes longer than a server may be silent."""
    async with Proxy(url, rate=MIB / SOON / 1.5).running() as proxy:
        yield proxy


@pytest.fixture
async def far(kind: str, link: Proxy) -> AsyncIterator[Store]:
    """The store behind it."""
    made = open_store(link.url, namespace=conftest.namespace(kind))
    await made.open()
    yield made
    await made.close()


async def test_a_call_takes_longer_than_its_limit_as_long_as_bytes_move(near, far, hasty):
    await put_in(near, new(payload=b"p" * MIB))
    began = time.monotonic()

    [lease] = await take(far)
    taken = time.monotonic()
    await end(far, lease, Done(b"r" * MIB))

    assert min(taken - began, time.monotonic() - taken) > SOON
    assert (await one(near, lease.id)).result == b"r" * MIB


async def test_a_link_that_falls_silent_half_way_is_given_up(near, far, link, hasty):
    await put_in(near, new(payload=b"p" * MIB))
    taking = asyncio.create_task(take(far))
    await asyncio.sleep(SOON)
    began = time.monotonic()
    link.block()

    with pytest.raises(OutcomeUnknown):
        await asyncio.wait_for(taking, 20 * SOON)

    assert time.monotonic() - began >= SOON * 0.5


async def test_large_payloads_and_results_get_through_at_default_settings(kind, near, url, hasty):
    count, telemetry, tasks = 60 if LONG else 8, Telemetry(), Tasks()
    recorder = EventRecorder(telemetry)

    @tasks.task()
    async def work(pad: str) -> str:
        return pad

    for _ in range(count):
        await put_in(near, job("work", pad="x" * (MIB - 100)))
    async with Proxy(url, rate=RATE).running() as proxy:
        far = open_store(proxy.url, namespace=conftest.namespace(kind))
        await far.open()
        async with worker(far, tasks, telemetry) as working:
            lease_ahead(working)
            await recorder.until(EventName.DONE, count)
        await far.close()

    assert {(each["lease"].attempt, each["lease"].lost) for each in recorder.of(EventName.DONE)} == {(1, 0)}
