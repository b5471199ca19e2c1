"""A line to the server keeps count of the answers to come, whatever its callers and the server do."""

import asyncio
import gc
import time

import pytest

from packhorse.errors import OutcomeUnknown, StoreUnavailable
from packhorse.stores.redis import pool
from packhorse.stores.redis.address import parse
from packhorse.stores.redis.connection import PIECE
from tests.factories import new
from tests.integration.keyspaces import KINDS, NONE
from tests.integration.refusing import Refusing
from tests.proxy import Proxy

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

SOON = 0.2  # seconds


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no answer take long."""
    monkeypatch.setattr(pool, "CALL_TIMEOUT_SECONDS", SOON)


async def test_a_line_that_is_mute_is_given_up_in_time_and_the_next_call_has_another(hasty):
    server = Refusing(None, None, b"*0")
    async with server.store() as store:
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await store.jobs.enqueue([new()])
        with pytest.raises(StoreUnavailable):
            await store.jobs.count()
        assert 2 * SOON <= time.monotonic() - began < 20 * SOON

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


async def test_an_answer_is_due_by_its_own_limit_though_the_line_is_old(hasty):
    async with Refusing(*[b"*0"] * 3, None).store() as store:
        for _ in range(3):
            await asyncio.sleep(SOON * 0.6)
            await store.jobs.enqueue([new()])
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await store.jobs.enqueue([new()])
        assert time.monotonic() - began >= SOON * 0.9


async def test_a_large_request_is_given_to_the_transport_in_pieces():
    server = Refusing(b"*0", b"*0")
    async with server.running(), Proxy(f"redis://127.0.0.1:{server.port}/0", rate=1 << 30).running() as proxy:
        connections = pool.ConnectionPool(parse(proxy.url), "tag")
        connections.open()
        await connections.read("PING")
        [line] = connections._idle
        proxy.block()

        calling = asyncio.create_task(connections.read("ECHO", b"x" * 32 * PIECE))
        await asyncio.sleep(SOON / 2)
        _, pauses_at = line._transport.get_write_buffer_limits()
        assert 0 < line._transport.get_write_buffer_size() <= PIECE + pauses_at
        proxy.unblock()

        assert await calling == []
        assert server.received == 2
        await connections.close()


async def test_an_idle_line_that_is_spoken_to_unasked_is_not_used_again():
    server = Refusing(b"*0\r\n*2\r\n:1\r\n$1\r\nx", b"*0")
    async with server.store() as store:
        await store.jobs.enqueue([new()])
        [idle] = store._keyspace.connections._idle
        while idle.usable:
            await asyncio.sleep(0)

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]
        assert idle not in store._keyspace.connections._idle


async def test_what_is_no_answer_at_all_ends_the_line():
    async with Refusing(b"?what", b"*0").store() as store:
        with pytest.raises(OutcomeUnknown):
            await store.jobs.enqueue([new()])

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


async def test_the_answer_to_one_who_went_away_is_not_given_to_the_next():
    server = Refusing(b"*0", b"*2\r\n$3\r\na\x1fz\r\n:1", b"*0")
    async with server.store() as store:
        await store.jobs.enqueue([new()])
        gone = asyncio.create_task(store.jobs.count())
        await asyncio.sleep(0)
        gone.cancel()

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]
        assert gone.cancelled()
    assert server.received == 3


async def test_closing_waits_for_the_answer_to_one_who_went_away():
    server = Refusing(b"*0", b"*0", b"+PONG")
    async with server.store() as store:
        await store.jobs.enqueue([new()])
        gone = asyncio.create_task(store.jobs.enqueue([new()]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])

        await store.close()
        assert server.received == 3  # what it was asked, and whether that was all


async def test_closing_does_not_wait_for_ever(hasty):
    async with Refusing(None, None).store() as store:
        mute = asyncio.create_task(store.jobs.enqueue([new()]))
        await asyncio.sleep(SOON / 2)

        await asyncio.wait_for(store.close(), 20)
        with pytest.raises(OutcomeUnknown):
            await mute


async def test_a_line_that_breaks_under_one_who_went_away_complains_to_nobody():
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    async with Refusing(b"*0").store("?wait_replicas=1") as store:
        gone = asyncio.create_task(store.jobs.enqueue([new()]))
        while not store._keyspace.connections._calls:
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_a_call_that_outlives_the_store_ends_as_it_would_have(hasty):
    loading = b"-LOADING Redis is loading the dataset in memory"
    async with Refusing(*[loading] * 20).store() as store:
        late = asyncio.create_task(store.jobs.enqueue([new()]))
        await asyncio.sleep(SOON / 4)

        await asyncio.wait_for(store.close(), 20)
        assert not late.done()
        with pytest.raises(StoreUnavailable, match="loading"):
            await late
