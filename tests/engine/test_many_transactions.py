"""Many handlers that hold transactions at once: few connections, leases kept, and nobody else waits."""

import asyncio
import time

import asyncpg
import pytest

from packhorse.engine.context import current
from packhorse.engine.tx import FROM_STORE
from packhorse.stores.contract import Store
from packhorse.stores.postgres.transaction import MAX_CONNECTIONS
from tests import business
from tests.business import TABLE, rows
from tests.engine.factories import SECOND, Crossing, EventName, Tasks, jobs, worker
from tests.factories import new, put_in

HELD = 0.5  # seconds that each handler holds its transaction: a hundred of them need twice the time of a lease
LEASE = 3 * SECOND
OPEN = f"select count(*) from pg_stat_activity where state = 'idle in transaction' and query like '%{TABLE}%'"


@pytest.fixture(params=business.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def live(live: Store):
    """A store whose database has a table of the user's own."""
    await business.begin(live)
    yield live
    await business.done(live, f"drop table {TABLE}")


async def test_hundred_at_once_are_all_written(live, telemetry, recorder, kind):
    tasks, sql = Tasks(), business.write(kind)

    @tasks.task(transaction=FROM_STORE)
    async def work(number: int) -> None:
        await current().tx.execute(sql, number, "row")

    await put_in(live, *jobs(100))
    async with worker(live, tasks, telemetry, concurrency=100, lease=LEASE):
        await recorder.until(EventName.DONE, 100)

    assert await rows(live) == list(range(100))
    assert not recorder.count(EventName.LOST)
    assert not recorder.count(EventName.LEASE_LOST)


@pytest.mark.parametrize("kind", [kind for kind in business.KINDS if kind == "postgres"], indirect=True)
async def test_hundred_that_hold_theirs_neither_exhaust_the_pool_nor_starve_renewals(live, telemetry, recorder, url):
    tasks, sql, crossing = Tasks(), business.write("postgres"), Crossing()
    outside, counting = await asyncpg.connect(url), asyncio.Lock()
    opened: list[int] = []
    waits: list[float] = []

    @tasks.task(transaction=FROM_STORE)
    async def work(number: int) -> None:
        await current().tx.execute(sql, number, "row")
        async with counting:
            opened.append(await outside.fetchval(OPEN))
        sent = time.monotonic()
        await put_in(live, new(queue="elsewhere"))
        waits.append(time.monotonic() - sent)
        await asyncio.sleep(HELD)

    await put_in(live, *jobs(100))
    begun = time.monotonic()
    async with worker(crossing.before(live), tasks, telemetry, concurrency=100, lease=LEASE):
        await recorder.until(EventName.DONE, 100)
    took = time.monotonic() - begun
    await outside.close()

    renewed = [len(args[0]) for name, args in crossing.calls if name == "jobs.renew"]
    assert took * SECOND > 1.5 * LEASE, "it was over before a lease could run out"
    assert max(renewed) > MAX_CONNECTIONS, "those that waited for a connection were not renewed"
    assert recorder.count(EventName.STARTED) == 100, "some were stopped, for their leases could not be renewed"
    assert (
        recorder.count(EventName.LOST),
        recorder.count(EventName.LEASE_LOST),
        recorder.count(EventName.RENEWAL_FAILED),
    ) == (
        0,
        0,
        0,
    )
    assert max(opened) == MAX_CONNECTIONS
    assert max(waits) < 1
    assert await rows(live) == list(range(100))
