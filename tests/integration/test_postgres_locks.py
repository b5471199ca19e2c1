"""In which order calls lock on PostgreSQL, and what happens to one that loses a deadlock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from packhorse.model.job import Retention, State
from packhorse.model.outcome import Done
from tests.conftest import kinds
from tests.factories import DAY, MINUTE, end, found, laned, new, put_in, run, state, take
from tests.integration.lock_waits import waiting_for_a_lock

if "postgres" not in kinds():
    pytest.skip("PostgreSQL is not among the stores to test", allow_module_level=True)

pytestmark = pytest.mark.parametrize("kind", ["postgres"])


@asynccontextmanager
async def colliding(raw: Any, schema: str, table: str, events: str) -> AsyncIterator[None]:
    """The first call that touches a table this way is ended as if by a deadlock."""
    await raw.execute(
        f"""
        CREATE SEQUENCE {schema}.hits;
        CREATE FUNCTION {schema}.collide() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('{schema}.hits') = 1 THEN RAISE deadlock_detected; END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER collide AFTER {events} ON {schema}.{table} EXECUTE FUNCTION {schema}.collide();
        """
    )
    try:
        yield
        assert await raw.fetchval(f"SELECT last_value FROM {schema}.hits") > 1, "nothing was ended"
    finally:
        await raw.execute(f"DROP FUNCTION {schema}.collide() CASCADE; DROP SEQUENCE {schema}.hits")


@pytest.mark.parametrize("verb", ["cancel", "enqueue", "exchange"])
async def test_a_call_that_loses_a_deadlock_is_made_again(store: Any, raw: Any, verb: str):
    ids = await put_in(store, laned("a"), laned("b"))
    async with colliding(raw, store._layout.schema, "count_deltas", "INSERT"):
        if verb == "cancel":
            assert {str(state) for state in await store.jobs.cancel(ids)} == {"cancelled"}
        elif verb == "enqueue":
            await put_in(store, laned("a"))
        else:
            assert len(await take(store)) == 2


async def test_prune_locks_the_records_of_all_shelves_by_id(store: Any, raw: Any, clock: Any):
    low, high = new(queue="later"), new(queue="first")
    assert low.id < high.id
    await put_in(store, low, high)
    for queue in ("first", "later"):  # in this order their shelves are made
        [lease] = await take(store, 1, queue)
        await end(store, lease, Done(keep=Retention(0, 0)))
    clock.to(clock.now() + 10**6)
    jobs = f"SELECT 1 FROM {store._layout.schema}.jobs WHERE id = $1 FOR KEY SHARE"

    async with raw.transaction():
        await raw.fetch(jobs, low.id)
        pruning = asyncio.ensure_future(store.jobs.prune(10))
        await waiting_for_a_lock(raw)
        await raw.fetch(f"{jobs} NOWAIT", high.id)  # as a delivery to both would

    assert (await pruning).jobs == 2


async def with_an_empty_shelf(store: Any, clock: Any) -> None:
    """Let a shelf be known as empty for more than an hour."""
    await put_in(store, new())
    await run(store, Done(keep=Retention(0, 0)))
    clock.turn(MINUTE)
    assert (await store.jobs.prune(10)).jobs == 1
    clock.turn(DAY)


async def test_a_shelf_is_not_removed_while_a_call_is_about_to_use_it(store: Any, raw: Any, clock: Any):
    schema = store._layout.schema
    there = f"SELECT count(*) FROM {schema}.retention_groups"
    await with_an_empty_shelf(store, clock)

    async with raw.transaction():
        await raw.fetch(f"SELECT {schema}.f1_retention_group_id('default', 'done', 0, 0)")
        await store.jobs.prune(10)
        assert await raw.fetchval(there) == 1
    await store.jobs.prune(10)
    assert await raw.fetchval(there) == 0


async def test_a_call_that_finds_a_shelf_about_to_be_removed_makes_another(store: Any, raw: Any, clock: Any):
    schema = store._layout.schema
    await with_an_empty_shelf(store, clock)
    [job] = await put_in(store, new())
    [lease] = await take(store)

    async with raw.transaction():
        await raw.fetch(f"SELECT {schema}.f1_remove_empty_retention_groups(0, 1000000, {clock.now()})")
        assert await raw.fetchval(f"SELECT count(*) FROM {schema}.retention_groups") == 0
        ending = asyncio.ensure_future(end(store, lease, Done(keep=Retention(0, 0))))
        await waiting_for_a_lock(raw)
    await ending

    assert await state(store, job) is State.DONE
    assert [one.id for one in await found(store)] == [job]
    clock.turn(MINUTE)
    assert (await store.jobs.prune(10)).jobs == 1
