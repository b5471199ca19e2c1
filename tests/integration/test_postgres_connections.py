"""Connections to PostgreSQL that are cancelled, forked, broken, pooled or set up oddly."""

import asyncio
import gc
import os
from collections.abc import Iterator

import asyncpg
import pytest

from packhorse.errors import StoreClosed, StoreError, StoreUnavailable
from packhorse.model.effect import Put
from packhorse.stores.contract import Topic
from packhorse.stores.postgres.address import parse
from packhorse.stores.postgres.database import PostgresDatabase
from packhorse.stores.postgres.store import PostgresStore
from tests import servers
from tests.conftest import kinds, namespace
from tests.factories import Done, end, found, laned, new, open_files, put_in, take

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
SCHEMA = namespace("postgres")
SOON = 10


async def test_a_cancelled_caller_leaves_the_connection_in_order(store):
    calls = [asyncio.create_task(put_in(store, new())) for _ in range(20)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert all([len(await put_in(store, new())) == 1 for _ in range(20)])
    assert sum((await store.jobs.count())["default"].values()) in range(20, 41)


async def test_a_connection_given_up_while_it_is_made_leaves_no_error_behind(url):
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))

    async def listen() -> None:
        async with PostgresDatabase(parse(url), lists="").alone():
            await asyncio.Event().wait()

    for steps in range(1, 40):
        listening = asyncio.create_task(listen())
        for _ in range(steps):
            await asyncio.sleep(0.0002)
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()
    gc.collect()

    assert complaints == []


async def test_a_connection_whose_caller_is_cancelled_twice_until_it_is_made_is_closed(url):
    async def listen() -> None:
        async with PostgresDatabase(parse(url), lists="").alone():
            await asyncio.Event().wait()

    before, files = asyncio.all_tasks(), open_files()
    listening = asyncio.create_task(listen())
    while not (connecting := asyncio.all_tasks() - before - {listening}):
        await asyncio.sleep(0)
    for task in connecting:  # once it is made, and the caller not yet awake; as when asyncio.run ends just then
        task.add_done_callback(lambda _: listening.cancel())
    listening.cancel()
    await asyncio.wait([listening])

    async with asyncio.timeout(SOON):
        while open_files() > files:
            await asyncio.sleep(0.01)


async def test_a_forked_process_does_not_touch_the_connections_of_its_parent(store, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)

    with pytest.raises(StoreClosed, match="forked"):
        await store.ping()


async def test_a_server_that_is_not_there_is_unavailable(kind):
    store = PostgresStore(f"postgresql://postgres@127.0.0.1:{servers.free_port()}/none")

    with pytest.raises(StoreUnavailable):
        await store.open()
    with pytest.raises(StoreUnavailable):
        await store.migrate()


@pytest.fixture
def own(kind: str) -> Iterator[servers.Server]:
    """A server that may be killed."""
    with servers.running("postgres", "fsync=off") as server:
        yield server


async def test_a_server_that_comes_back_is_used_again(own):
    store = PostgresStore(own.url)
    await store.migrate()
    await store.open()
    await put_in(store, new())
    hints = store.wakes(Topic.WORK)
    await asyncio.wait_for(anext(hints), SOON)

    own.kill()
    with pytest.raises(StoreError):
        await store.ping()
    with pytest.raises(StoreUnavailable):
        await put_in(store, new())
    await asyncio.to_thread(own.restart)

    assert len(await take(store)) == 1
    await asyncio.wait_for(anext(hints), SOON)
    await hints.aclose()
    await store.close()


async def test_calls_work_without_prepared_statements(store, url, clock):
    pooled = PostgresStore(f"{url}?pooler=transaction", namespace=SCHEMA, clock=clock)
    await pooled.open()

    await put_in(pooled, laned(), laned())
    [lease] = await take(pooled)
    await end(pooled, lease, Done())

    assert len(await found(pooled)) == 2
    await pooled.close()


async def test_an_isolation_under_which_others_cannot_be_seen_is_refused(store, url):
    strict = PostgresStore(f"{url}?default_transaction_isolation=repeatable%20read", namespace=SCHEMA)

    with pytest.raises(StoreError, match="isolation"):
        await strict.open()


async def test_built_in_types_are_asked_about_once_a_process_not_once_a_session(url, store, monkeypatch):
    asked: list[list[int]] = []
    introspect = asyncpg.Connection._introspect_types

    async def counting(self, typeoids, *options):
        asked.append(list(typeoids))
        return await introspect(self, typeoids, *options)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", counting)
    for _ in range(3):
        other = PostgresStore(url, namespace=SCHEMA)
        await other.open()
        try:
            [receipt] = await other.jobs.enqueue([new()])
            [lease] = await take(other)
            assert lease.id == receipt.id
            await end(other, lease, Done(b'"x"'))
            assert await other.records.put([Put("k", "a", b"1")]) != [None]
        finally:
            await other.close()

    assert len(asked) == len({frozenset(types) for types in asked})
