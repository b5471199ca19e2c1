"""The moments of events are those of the jobs they tell of: by them a reader finds the failure that belongs to an event."""

import pytest

from packhorse.model.event import LIFECYCLE, Change, unpack
from packhorse.model.reason import WaitReason
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from tests.factories import (
    BROKEN,
    DEAD,
    MINUTE,
    OTHER,
    WORKER,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    end,
    lapse,
    new,
    one,
    put_in,
    run,
    take,
)


async def moment(store: Store, change: Change) -> int:
    """When a change happened last, as the lifecycle of jobs has it."""
    events = await store.streams.read(LIFECYCLE, limit=1000)
    return [event.at for event in events if change in dict(unpack(event.data))][-1]


@pytest.mark.parametrize(
    ("outcome", "change"),
    [(Again(error=BROKEN), Change.AGAIN), (Again(MINUTE, BROKEN), Change.AGAIN), (DEAD, Change.DEAD),
     (Cancelled(error=BROKEN), Change.CANCELLED)],
)  # fmt: skip
async def test_the_failure_of_a_job_has_the_moment_of_the_event_that_tells_of_it(store, clock, outcome, change):
    [job] = await put_in(store, new())
    clock.turn(MINUTE)
    [lease] = await take(store)
    clock.turn(MINUTE)
    await end(store, lease, outcome)
    failed = await moment(store, change)
    clock.turn(MINUTE)
    await store.jobs.promote([job])

    [failure] = (await one(store, job)).failures
    assert (failure.at, failure.attempt, failure.message) == (failed, 1, "it broke")


@pytest.mark.parametrize(
    ("outcome", "change"),
    [(None, Change.CLAIMED), (Done(), Change.DONE), (DEAD, Change.DEAD), (Cancelled(), Change.CANCELLED),
     (Wait(WaitReason.LIMIT), Change.WAITING)],
)  # fmt: skip
async def test_a_job_is_running_waiting_or_ended_since_the_moment_of_the_event_that_tells_of_it(
    store: Store, clock: TurnedClock, outcome, change
):
    [job] = await put_in(store, new())
    clock.turn(MINUTE)
    [lease] = await take(store)
    clock.turn(MINUTE)
    if outcome is not None:
        await end(store, lease, outcome)

    since = await moment(store, change)
    clock.turn(MINUTE)
    assert (await one(store, job)).since == since


async def test_a_job_that_is_dead_as_poison_has_no_failure_of_that_moment(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(1))
    await lapse(store, clock, max_lost=1)

    found = await one(store, job)
    assert (found.since, found.failures) == (await moment(store, Change.DEAD), ())


async def test_the_answer_names_the_worker_of_each_lease_and_the_attempts_of_its_job(store, clock):
    [again] = await put_in(store, new(priority=1))
    await run(store, Again())
    [first] = await put_in(store, new(priority=2))
    await take(store, 1, worker=WORKER)
    await take(store, 1, worker=OTHER)

    lost = await lapse(store, clock)

    assert {one.id: (one.worker, one.attempt) for one in lost} == {again: (WORKER, 2), first: (OTHER, 1)}
