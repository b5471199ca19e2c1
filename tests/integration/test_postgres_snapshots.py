"""A snapshot that somebody holds while many jobs come and go: dead rows stay, and claims are led around them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from packhorse.model.ids import new_id
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores.postgres.bookmarks import FULL_LOOK_EVERY_US
from packhorse.stores.postgres.store import PostgresStore
from packhorse.testing import TurnedClock
from tests.conftest import kinds, namespace
from tests.factories import ask, found, new, put_in, state, take
from tests.integration.torn import LONG

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

# What they hold open keeps every VACUUM of the server from its work: the test of that is not run meanwhile.
pytestmark = [pytest.mark.parametrize("kind", ["postgres"]), pytest.mark.xdist_group("vacuum")]
SCHEMA = namespace("postgres")
JOBS = 100_000 if LONG else 24_000
WAITING = 1000
SOON = 30


@pytest.fixture
async def holder(url: str) -> AsyncIterator[Any]:
    """Somebody who looked once and has not ended the transaction."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def hold(connection: Any) -> None:
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetchval(f"SELECT count(*) FROM {SCHEMA}.ready")


class Meter:
    """Counts the pages that the server looks at for an exchange as the store would make it."""

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        self._store, self._connection = store, connection
        self._params: tuple[Any, ...] = ()
        pass_on = store._namespace.call_soon

        async def call_soon(function: str, *params: object) -> Any:
            self._params = params
            return await pass_on(function, *params)

        store._namespace.call_soon = call_soon  # type: ignore[method-assign]

    async def pages(self, *, hinted: bool = True) -> int:
        """Of the last exchange, made twice more and undone; the first of them plans."""
        params = list(self._params)
        params[13] = self._store._bookmarks.to_send() if hinted else None
        for _ in range(2):
            transaction = self._connection.transaction()
            await transaction.start()
            params[5] = new_id()
            [[text]] = await self._connection.fetch(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {self._store._layout.functions.call('exchange', 19)}", *params
            )
            await transaction.rollback()
        plan = json.loads(text)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def work_off(store: PostgresStore, count: int) -> list[float]:
    """Claim and settle so many jobs, with as many coming in; the caretaker does its part. Answers what exchanges took."""
    leases: tuple[Any, ...] = ()
    took = []
    for done in range(0, count, 200):
        await put_in(store, *(new() for _ in range(200)))
        settlements, began = [Settlement(each, Done()) for each in leases], time.perf_counter()
        leases = (await store.jobs.exchange(settlements, ask(200))).leases
        took.append(time.perf_counter() - began)
        assert len(leases) == 200
        if done % 2000 == 0:
            await store.maintain()
    await store.jobs.exchange([Settlement(each, Done()) for each in leases])
    await take(store)
    return took


async def test_a_claim_costs_about_the_same_while_an_old_snapshot_is_held(store, url, holder):
    raw = await asyncpg.connect(url)
    await raw.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)
    meter = Meter(store, raw)
    for _ in range(WAITING // 500):
        await put_in(store, *(new() for _ in range(500)))
    await work_off(store, 400)
    before = await meter.pages()
    await hold(holder)

    await work_off(store, JOBS)

    async with asyncio.timeout(SOON):  # a server tells of dead rows a little later
        while store._bookmarks.to_send() is None:
            await store.maintain()
            await asyncio.sleep(0.05)
    await work_off(store, 400)
    held, unhinted = await meter.pages(), await meter.pages(hinted=False)
    await raw.close()
    print(f"\n{JOBS} jobs under an old snapshot: {before} pages a claim before, {held} then, {unhinted} without hints")  # noqa: T201
    assert unhinted > 3 * before, "the snapshot is not in the way: this test shows nothing"
    assert held < 3 * before


@pytest.mark.skipif(not LONG, reason="it is about time: only on a machine that has nothing else to do")
async def test_a_claim_takes_at_most_three_times_as_long_while_an_old_snapshot_is_held(store, url, holder):
    timed = PostgresStore(url, namespace=SCHEMA)  # by the server's clock, so that some claims look at all of it
    await timed.open()
    for _ in range(WAITING // 500):
        await put_in(timed, *(new() for _ in range(500)))
    await work_off(timed, 2000)
    before = _p99(await work_off(timed, JOBS))
    await hold(holder)

    held = _p99(await work_off(timed, JOBS))

    await timed.close()
    print(f"\n{JOBS} jobs in claims of 200: p99 {before * 1000:.1f} ms, under an old snapshot {held * 1000:.1f} ms")  # noqa: T201
    assert held <= 3 * before


def _p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


@pytest.fixture
async def worn(store: PostgresStore, url: str, holder: Any) -> PostgresStore:
    """A store whose claims are led around many dead rows."""
    await hold(holder)
    raw = await asyncpg.connect(url)
    await raw.execute(
        f"INSERT INTO {SCHEMA}.ready (since, id, attempt, lost, priority, lane_limit, queue)"
        " SELECT n, lpad(to_hex(n), 32, '0')::uuid, 0, 0, 10, 1, 'default' FROM generate_series(1, 30000) AS n"
    )
    await raw.execute(f"DELETE FROM {SCHEMA}.ready")
    await raw.close()
    async with asyncio.timeout(SOON):
        while store._bookmarks.to_send() is None:
            await store.maintain()
            await asyncio.sleep(0.01)
    return store


async def test_urgent_jobs_are_seen_at_once_and_late_ones_soon(worn, url, clock):
    early = PostgresStore(url, namespace=SCHEMA, clock=TurnedClock())
    await early.open()
    clock.turn(1000)
    ordinary = await put_in(worn, *(new() for _ in range(6)))
    assert [lease.id for lease in await take(worn, 2)] == ordinary[:2]
    [urgent] = await put_in(worn, new(priority=1))
    [casual] = await put_in(worn, new(priority=20))
    [late] = await put_in(early, new())  # as by a transaction that was long under way

    first, second, third = [(await take(worn, 2)) for _ in range(3)]

    assert [lease.id for lease in first] == [urgent, ordinary[2]]
    assert [lease.id for lease in second + third] == [*ordinary[3:], casual]
    assert await state(worn, late) == "ready"
    clock.turn(FULL_LOOK_EVERY_US)
    assert [lease.id for lease in await take(worn)] == [late]
    await early.close()


async def test_claims_begin_at_the_beginning_again_once_the_snapshot_is_gone(worn, holder):
    await put_in(worn, *(new() for _ in range(3)))
    assert len(await take(worn)) == 3
    await holder.execute("ROLLBACK")

    async with asyncio.timeout(SOON):
        while worn._bookmarks.to_send() is not None:
            await worn.maintain()
            await asyncio.sleep(0.01)

    await put_in(worn, new())
    assert len(await take(worn)) == 1
    assert len(await found(worn)) == 4
