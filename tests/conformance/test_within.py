"""What a store gives as work for a connection of the caller's own."""

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from packhorse.errors import OtherDatabase, WrongIsolation
from packhorse.jobs import user_connections
from packhorse.model.effect import Enqueue, Put
from packhorse.model.job import State
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done, Held
from packhorse.stores.contract import Store, Topic
from packhorse.testing import TurnedClock
from tests.conformance.test_wakes import SOON, listening
from tests.conftest import kinds
from tests.factories import HOUR, MINUTE, ask, drain, end, laned, new, put_in, state, take

HOLDING = [
    kind for kind in kinds() if kind in ("sqlite", "postgres")
]  # those that a transaction of a database can hold


@pytest.fixture
def mine(kind: str, url: str, store: Store) -> Iterator[Any]:
    """A connection of the caller's own to the database of the store, if it is one."""
    if kind not in HOLDING:
        yield None
        return
    connection = sqlite3.connect(url.removeprefix("sqlite:///")) if kind == "sqlite" else psycopg.connect(url)
    yield connection
    connection.close()


def enqueue(store: Store, mine: Any, *jobs: Any) -> list[bytes]:
    """Enqueue on the caller's connection, where there can be one; else as ever."""
    return [receipt.id for receipt in user_connections.blocking(mine).run(store.jobs.within().enqueue(jobs))]


@pytest.fixture
def held(kind: str) -> bool:
    return kind in HOLDING


async def test_answer_what_can_be_part_of_a_transaction_of_the_callers_own_or_refuse_where_nothing_can(
    store: Store, kind: str, held: bool, mine: Any
):
    if kind in ("redis", "valkey"):
        with pytest.raises(OtherDatabase, match="Redis cannot be part"):
            store.jobs.within()
    elif not held:
        with sqlite3.connect(":memory:") as other, pytest.raises(OtherDatabase):
            enqueue(store, other, new())
        other.close()
    else:
        assert enqueue(store, mine, new())


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_store_jobs_within_a_transaction_of_the_callers_own(store: Store, mine: Any):
    taken = new()
    await put_in(store, taken)

    work = store.jobs.within().enqueue([taken, new()])
    first, second = user_connections.blocking(mine).run(work)
    mine.commit()

    assert (first.id, first.created, second.created) == (taken.id, False, True)
    assert await state(store, second.id) is State.READY


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_jobs_enqueued_within_a_transaction_are_there_once_it_is_committed_and_wake_a_worker(
    store: Store, mine: Any
):
    assert await take(store) == []
    async with listening(store, Topic.WORK) as hinted:
        [job] = enqueue(store, mine, new())
        assert await state(store, job) is None
        hinted.clear()

        mine.commit()

        await asyncio.wait_for(hinted.wait(), SOON)
    assert [lease.id for lease in await take(store)] == [job]


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_jobs_enqueued_within_a_transaction_that_is_rolled_back_were_never_there(store: Store, mine: Any):
    job = new()
    enqueue(store, mine, job, laned(), new(delay=1))

    mine.rollback()

    assert await store.jobs.count() == {}
    assert await put_in(store, job) == [job.id]
    assert await state(store, job.id) is State.READY


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_a_laned_job_that_was_committed_is_not_overtaken_by_one_that_was_enqueued_after_that(
    store: Store, mine: Any, clock: TurnedClock
):
    [first] = enqueue(store, mine, laned())
    mine.commit()
    clock.to(clock.now() + 1)
    [second] = await put_in(store, laned())
    [third] = enqueue(store, mine, laned())
    mine.commit()
    order = []
    for _ in range(3):
        [lease] = await take(store)
        order.append(lease.id)
        await end(store, lease, Done())

    assert order == [first, second, third]


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_refuse_a_transaction_of_the_callers_own_in_which_nothing_could_be_settled_before_anything_is_written_in_it(
    store: Store, mine: Any, kind: str
):
    user_connections.blocking(mine).run(store.jobs.within().check())
    mine.rollback()
    other = mine if kind == "postgres" else sqlite3.connect(":memory:")
    if kind == "postgres":
        mine.execute("set transaction isolation level repeatable read")

    with pytest.raises((OtherDatabase, WrongIsolation)):
        user_connections.blocking(other).run(store.jobs.within().check())
    other.close()


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_write_outcomes_with_their_effects_within_a_transaction_of_the_callers_own(store: Store, mine: Any):
    [job, other] = await put_in(store, new(), new())
    [lease, late] = await take(store)
    await end(store, late, Done())
    effect = new()
    settlements = [Settlement(lease, Done(b'"\xc3\xa9"'), (Enqueue(effect),)), Settlement(late, Done())]

    verdicts = user_connections.blocking(mine).run(store.jobs.within().settle(settlements))
    before = await state(store, job)
    mine.commit()

    assert verdicts == (Verdict.WRITTEN, Verdict.REPEATED)
    assert before is State.RUNNING
    assert [await state(store, one) for one in (job, other, effect.id)] == [State.DONE, State.DONE, State.READY]
    [ended] = await store.jobs.get([job])
    assert ended is not None
    assert ended.result == b'"\xc3\xa9"'


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_the_last_notes_of_attempts_are_kept_with_their_settlements_within_a_transaction(store: Store, mine: Any):
    [job, other] = await put_in(store, new(), new())
    [lease, late] = await take(store)
    await end(store, late, Done())
    settlements, notes = [Settlement(lease, Done())], [(lease, b'"\xc3\xa9 \\u0000"'), (late, b"2")]

    user_connections.blocking(mine).run(store.jobs.within().settle(settlements, notes))
    mine.commit()

    [noted, ended] = await store.jobs.get([job, other])
    assert noted is not None
    assert ended is not None
    assert (noted.state, noted.progress, ended.progress) == (State.DONE, b'"\xc3\xa9 \\u0000"', None)


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
@pytest.mark.parametrize("calls", [1, 2])
async def test_held_steps_within_a_transaction_are_there_with_the_settlement_that_comes_after_them(
    store: Store, mine: Any, calls: int
):
    await put_in(store, new())
    [lease] = await take(store)
    held = [Settlement(lease, Held(step), (Put("steps", "one", b"%d" % step),)) for step in (1, 2)]
    end = Settlement(lease, Done())

    if calls == 1:
        works = [store.jobs.within().settle([*held, end], [(lease, b"9")])]
    else:
        works = [store.jobs.within().settle(held), store.jobs.within().settle([end], [(lease, b"9")])]
    verdicts = [verdict for work in works for verdict in user_connections.blocking(mine).run(work)]
    mine.commit()

    assert verdicts == [Verdict.WRITTEN] * 3
    [record] = await store.records.get("steps", ["one"])
    assert record is not None
    assert record.value == b"2"
    [ended] = await store.jobs.get([lease.id])
    assert ended is not None
    assert (ended.state, ended.progress) == (State.DONE, b"9")


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_a_settlement_within_a_transaction_that_is_rolled_back_leaves_the_lease_as_it_was(
    store: Store, mine: Any
):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    [verdict] = user_connections.blocking(mine).run(store.jobs.within().settle([Settlement(lease, Done())]))

    mine.rollback()

    assert verdict is Verdict.WRITTEN
    assert await state(store, job) is State.RUNNING
    assert await end(store, lease, Done()) is Verdict.WRITTEN


@pytest.mark.parametrize("kind", [kind for kind in HOLDING if kind != "sqlite"], indirect=True)
async def test_a_laned_job_in_an_open_transaction_holds_up_nobody_in_its_lane(store: Store, mine: Any):
    await put_in(store, laned())
    enqueue(store, mine, laned(), new())

    async with asyncio.timeout(5):
        [lease] = await take(store)
        await put_in(store, laned())
        verdict = await end(store, lease, Done())
        [following] = await take(store)
    mine.rollback()

    assert verdict is Verdict.WRITTEN
    assert (await store.jobs.exchange([Settlement(following, Done())], ask())).verdicts == (Verdict.WRITTEN,)


@pytest.mark.parametrize("kind", HOLDING, indirect=True)
async def test_a_laned_job_that_was_committed_is_not_overtaken_after_the_clock_was_set_back(
    store: Store, mine: Any, clock: TurnedClock
):
    [first] = enqueue(store, mine, laned())
    mine.commit()
    clock.set_back(HOUR)
    [later] = await put_in(store, laned(delay=MINUTE))
    [second] = enqueue(store, mine, laned())
    mine.commit()
    [third] = await put_in(store, laned())

    ran = await drain(store)
    clock.turn(2 * HOUR)  # a store may wait until its clock has caught up
    ran += await drain(store)

    assert [job for job in ran if job != later] == [first, second, third]
    assert later in ran
