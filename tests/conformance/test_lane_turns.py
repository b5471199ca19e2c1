"""What may happen to a job on its way through a lane: waits, losses, cancels, drops, replays, children."""

from itertools import chain

import pytest

from packhorse.model.effect import Put
from packhorse.model.job import State
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    Again,
    Done,
    Wait,
    drain,
    end,
    laned,
    lose,
    new,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

READY, WAITING, RUNNING, SCHEDULED = State.READY, State.WAITING, State.RUNNING, State.SCHEDULED


async def test_a_job_that_waits_for_a_signal_keeps_its_slot(store):
    jobs = await put_in(store, laned(), laned())
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))
    assert await take(store) == []

    await store.records.put([Put("signal", "go", b"1")])

    assert await drain(store) == jobs


async def test_a_released_job_of_a_lane_runs_before_those_behind_it(store):
    jobs = await put_in(store, laned(), laned())
    await run(store, Wait(WaitReason.INTERVENTION))

    await store.jobs.release(WaitReason.INTERVENTION)

    assert await drain(store) == jobs


async def test_a_job_taken_back_runs_before_those_behind_it(store, clock):
    jobs = await put_in(store, laned(), laned(), laned())
    [lease] = await take(store)
    clock.to(lease.until + 1)
    await store.jobs.reap(10)

    assert await drain(store) == jobs


async def test_a_poisoned_job_hands_on_its_slot(store, clock):
    jobs = await put_in(store, laned(), laned())

    await lose(store, clock, 1, max_lost=1)

    assert await states(store, *jobs) == [State.DEAD, READY]


async def test_a_cancelled_job_hands_on_its_slot_at_its_end_not_before(store):
    jobs = await put_in(store, laned(), laned())
    [lease] = await take(store)
    await store.jobs.cancel([jobs[0]])
    assert await state(store, jobs[1]) is WAITING

    await end(store, lease, Again(delay=HOUR))

    assert await states(store, *jobs) == [State.CANCELLED, READY]


async def test_a_scheduled_retry_that_is_cancelled_hands_on_its_slot(store):
    jobs = await put_in(store, laned(), laned(), laned())
    await run(store, Again(delay=HOUR))

    await store.jobs.cancel([jobs[0]])

    assert await states(store, *jobs) == [State.CANCELLED, READY, WAITING]


async def test_a_waiting_job_with_a_slot_that_is_cancelled_hands_it_on(store):
    jobs = await put_in(store, laned(), laned(), laned())
    await run(store, Wait(WaitReason.INTERVENTION))

    await store.jobs.cancel([jobs[0]])

    assert await states(store, *jobs) == [State.CANCELLED, READY, WAITING]


async def test_a_scheduled_job_without_a_slot_hands_on_none(store):
    later, first, second = await put_in(store, laned(delay=HOUR), laned(), laned())

    await store.jobs.cancel([later])

    assert await states(store, first, second) == [READY, WAITING]


async def test_a_job_cancelled_behind_its_lane_leaves_the_line(store):
    jobs = await put_in(store, *(laned() for _ in range(4)))

    await store.jobs.cancel([jobs[1]])

    assert await states(store, *jobs) == [READY, State.CANCELLED, WAITING, WAITING]
    assert await drain(store) == [jobs[0], jobs[2], jobs[3]]


async def test_a_job_dropped_behind_its_lane_leaves_the_line(store):
    jobs = await put_in(store, *(laned() for _ in range(4)))

    await store.jobs.drop([jobs[2]])

    assert await states(store, *jobs) == [READY, WAITING, None, WAITING]
    assert await drain(store) == [jobs[0], jobs[1], jobs[3]]


@pytest.mark.parametrize("verb", ["cancel", "drop"])
async def test_a_whole_lane_can_be_ended_in_one_call(store, verb):
    jobs = await put_in(store, *(laned() for _ in range(4)))

    await getattr(store.jobs, verb)(jobs)

    [newcomer] = await put_in(store, laned())
    assert await state(store, newcomer) is READY
    assert await drain(store) == [newcomer]


async def test_a_replayed_job_asks_its_lane_again(store):
    dead, first, second = await put_in(store, laned(), laned(), laned())
    await run(store, DEAD)
    assert await states(store, first, second) == [READY, WAITING]

    assert await store.jobs.replay([dead]) == [True]

    assert (await one(store, dead)).reason is WaitReason.LANE
    assert await drain(store) == [first, second, dead]


async def test_a_replayed_job_takes_a_free_slot(store):
    [dead] = await put_in(store, laned())
    await run(store, DEAD)

    await store.jobs.replay([dead])

    [newcomer] = await put_in(store, laned())
    assert await states(store, dead, newcomer) == [READY, WAITING]


async def test_a_parent_asks_its_lane_when_its_children_have_ended(store):
    parent = laned(children=1)
    [holder] = await put_in(store, laned(priority=9))
    await store.jobs.enqueue([parent, new(parent=parent.id, priority=0)])
    assert (await one(store, parent.id)).reason is WaitReason.CHILDREN

    await run(store, Done())

    assert (await one(store, parent.id)).reason is WaitReason.LANE
    assert await drain(store) == [holder, parent.id]


async def test_a_parent_waiting_for_children_holds_no_slot_before_its_first_run(store):
    [parent, other] = await put_in(store, laned(children=1), laned())

    assert await states(store, parent, other) == [WAITING, READY]


@pytest.mark.parametrize("how", ["promoted", "replayed", "parent"])
@pytest.mark.parametrize("paused", [True, False], ids=["paused", "going"])
async def test_a_promoted_or_replayed_job_and_a_parent_whose_children_have_ended_stands_behind_jobs_of_its_lane_whose_moment_has_come(
    store, clock, how, paused
):
    late = laned(delay=HOUR) if how == "promoted" else laned(children=int(how == "parent"))
    child = new(queue="other", parent=late.id)
    await put_in(store, late, child)
    if how == "replayed":
        await run(store, DEAD)
    if paused:
        await store.queues.pause(["default"])
    first, second = await put_in(store, laned(delay=2 * MINUTE), laned(delay=MINUTE))
    clock.turn(3 * MINUTE)
    match how:
        case "promoted":
            assert await store.jobs.promote([late.id]) == [True]
        case "replayed":
            assert await store.jobs.replay([late.id]) == [True]
        case "parent":
            await run(store, Done(), queue="other")
    [last] = await put_in(store, laned())
    await store.queues.resume(["default"])

    assert await drain(store) == [second, first, late.id, last]


async def test_many_jobs_of_a_lane_that_came_due_are_not_overtaken_by_one_that_is_promoted(store, clock):
    late = laned(delay=HOUR, lane_limit=502)
    await put_in(store, late)
    due = [await put_in(store, *(laned(delay=MINUTE, lane_limit=502) for _ in range(count))) for count in (500, 1)]
    clock.turn(2 * MINUTE)
    assert await store.jobs.promote([late.id]) == [True]  # more came due than one call moves

    ran = [lease.id for _ in range(3) for lease in await take(store, 500)]

    assert ran == [*chain.from_iterable(due), late.id]


async def test_jobs_that_fall_due_at_the_same_moment_come_by_arrival_whether_they_have_a_lane_or_not(store, clock):
    moment = clock.now() + MINUTE
    ids = await put_in(store, *(laned(f"lane {n}", at=moment) if n % 2 else new(at=moment) for n in range(6)))
    clock.turn(HOUR)

    assert [lease.id for lease in await take(store)] == ids
