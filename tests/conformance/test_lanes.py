"""Jobs of one lane: so many at a time, in order of arrival."""

import asyncio

import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.reason import WaitReason
from tests.factories import (
    BROKEN,
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    ask,
    drain,
    end,
    found,
    laned,
    new,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

READY, WAITING, RUNNING, SCHEDULED = State.READY, State.WAITING, State.RUNNING, State.SCHEDULED


async def test_as_many_jobs_of_a_lane_as_its_limit_are_ready_or_running_the_rest_wait_in_order_of_arrival(
    store,
):
    jobs = await put_in(store, *(laned(lane_limit=2) for _ in range(5)))
    assert await states(store, *jobs) == [READY, READY, WAITING, WAITING, WAITING]
    assert (await one(store, jobs[2])).reason is WaitReason.LANE

    leases = await take(store)

    assert [lease.id for lease in leases] == jobs[:2]
    assert await states(store, *jobs) == [RUNNING, RUNNING, WAITING, WAITING, WAITING]


async def test_a_scheduled_job_asks_its_lane_when_its_moment_has_come(store, clock):
    [later] = await put_in(store, laned(delay=MINUTE))
    [first] = await put_in(store, laned())
    assert await states(store, later, first) == [SCHEDULED, READY]
    clock.turn(MINUTE)

    assert [lease.id for lease in await take(store)] == [first]

    waiting = await one(store, later)
    assert (waiting.state, waiting.reason) == (WAITING, WaitReason.LANE)


async def test_a_scheduled_job_finds_a_free_lane_when_its_moment_has_come(store, clock):
    [later] = await put_in(store, laned(delay=MINUTE))
    [first] = await put_in(store, laned())
    await run(store, Done())
    clock.turn(MINUTE)

    assert [lease.id for lease in await take(store)] == [later]
    assert await state(store, first) is State.DONE


async def test_scheduled_jobs_of_a_lane_ask_in_the_order_of_their_moments(store, clock):
    third, first, second = await put_in(store, laned(delay=3 * SECOND), laned(delay=SECOND), laned(delay=2 * SECOND))
    clock.turn(MINUTE)

    assert await drain(store) == [first, second, third]


async def test_the_end_of_a_laned_job_hands_its_slot_to_the_next_in_line(store, clock):
    jobs = await put_in(store, laned(), laned(), laned())
    [lease] = await take(store)
    clock.turn(SECOND)

    await end(store, lease, Done())

    assert await states(store, *jobs) == [State.DONE, READY, WAITING]
    assert (await one(store, jobs[1])).since == clock.now()


async def test_the_next_in_line_is_leased_in_the_same_call(store):
    jobs = await put_in(store, laned(), laned(), laned())
    [lease] = await take(store)

    answer = await store.jobs.exchange([Settlement(lease, Done())], ask())

    assert [lease.id for lease in answer.leases] == [jobs[1]]
    assert not answer.more


@pytest.mark.parametrize("outcome", [Done(), DEAD, Cancelled()])
async def test_every_end_hands_on_the_slot(store, outcome):
    jobs = await put_in(store, laned(), laned())

    await run(store, outcome)

    assert await state(store, jobs[1]) is READY


@pytest.mark.parametrize("outcome", [Again(), Again(delay=HOUR), Wait(WaitReason.INTERVENTION), Held(1)])
async def test_what_is_no_end_keeps_the_slot(store, outcome):
    jobs = await put_in(store, laned(), laned())

    await run(store, outcome)

    assert await state(store, jobs[1]) is WAITING


async def test_a_retry_keeps_its_slot_so_order_in_a_lane_survives_retries(store, clock):
    jobs = await put_in(store, laned(), laned(), laned())
    await run(store, Again(delay=MINUTE, error=BROKEN))
    assert await take(store) == []
    clock.turn(MINUTE)
    await run(store, Again(error=BROKEN))

    assert await drain(store) == jobs


async def test_a_job_that_waits_for_children_hands_its_slot_to_the_next_in_line_and_asks_its_lane_again_when_they_have_ended(
    store, clock
):
    parent, following = await put_in(store, laned(), laned())
    [lease] = await take(store)
    child = laned(parent=parent)
    await end(store, lease, Wait(WaitReason.CHILDREN, children=1), Enqueue(child))
    assert await states(store, parent, following, child.id) == [WAITING, READY, WAITING]
    clock.turn(SECOND)

    [second] = await take(store)
    [behind] = await put_in(store, laned())
    await end(store, second, Done())
    assert await states(store, parent, following, child.id, behind) == [WAITING, State.DONE, READY, WAITING]
    assert await drain(store) == [child.id, behind, parent]
    assert {state for state, count in (await store.jobs.count())["default"].items() if count} == {State.DONE}


@pytest.mark.parametrize("ending", ["cancel", "drop"])
async def test_a_laned_job_that_waits_for_children_and_is_ended_frees_no_slot_twice(store, ending):
    parent, following, last = await put_in(store, laned(), laned(), laned())
    [lease] = await take(store)
    await end(store, lease, Wait(WaitReason.CHILDREN, children=1))

    await getattr(store.jobs, ending)([parent])

    assert await states(store, following, last) == [READY, WAITING]
    assert await drain(store) == [following, last]


async def test_a_newcomer_does_not_overtake_a_scheduled_retry(store, clock):
    [first] = await put_in(store, laned())
    await run(store, Again(delay=MINUTE))
    [newcomer] = await put_in(store, laned())
    assert await state(store, newcomer) is WAITING
    clock.turn(MINUTE)

    assert await drain(store) == [first, newcomer]


async def test_an_empty_lane_takes_as_many_as_before(store):
    first = await put_in(store, *(laned(lane_limit=2) for _ in range(5)))
    assert await drain(store) == first

    again = await put_in(store, *(laned(lane_limit=2) for _ in range(3)))

    assert await states(store, *again) == [READY, READY, WAITING]


async def test_several_ends_in_one_call_hand_on_as_many_slots(store):
    jobs = await put_in(store, *(laned(lane_limit=3) for _ in range(8)))
    leases = await take(store)

    await store.jobs.exchange([Settlement(lease, Done()) for lease in leases[:2]])

    assert await states(store, *jobs[3:]) == [READY, READY, WAITING, WAITING, WAITING]


async def test_lanes_are_apart(store):
    jobs = await put_in(store, laned("a"), laned("a"), laned("b"), laned("a", queue="other"), new())

    assert await states(store, *jobs) == [READY, WAITING, READY, READY, READY]


async def test_the_end_of_one_lane_leaves_another_alone(store):
    [first, _, other] = await put_in(store, laned("a", priority=0), laned("b"), laned("b"))

    await run(store, Done())

    assert await states(store, first, other) == [State.DONE, WAITING]


async def test_priority_orders_lanes_but_never_inside_a_lane(store):
    slow, urgent, other = await put_in(store, laned("a", priority=9), laned("a", priority=0), laned("b", priority=5))

    assert await drain(store) == [other, slow, urgent]


async def test_a_job_of_a_lane_let_in_stands_behind_those_who_were_ready_before(store, clock):
    [first, second] = await put_in(store, laned(), laned())
    [plain] = await put_in(store, new())
    clock.turn(SECOND)

    assert await drain(store) == [first, plain, second]


async def test_a_newcomer_with_a_higher_limit_stands_behind_those_who_wait(store):
    jobs = await put_in(store, laned(lane_limit=1), laned(lane_limit=1), laned(lane_limit=5))
    assert await states(store, *jobs) == [READY, WAITING, WAITING]

    assert await drain(store) == jobs


async def test_a_newcomer_with_a_higher_limit_comes_in_if_nobody_waits(store):
    jobs = await put_in(store, laned(lane_limit=1), laned(lane_limit=2))

    assert await states(store, *jobs) == [READY, READY]


async def test_a_job_of_a_lane_enqueued_by_its_predecessor_runs_after_it(store):
    [first] = await put_in(store, laned())
    next_in_line = laned()
    [lease] = await take(store)
    await end(store, lease, Held(1), Enqueue(next_in_line))
    assert await state(store, next_in_line.id) is WAITING

    await end(store, lease, Done())

    assert await states(store, first, next_in_line.id) == [State.DONE, READY]


async def test_a_job_of_a_lane_enqueued_with_the_end_of_the_last_is_ready(store):
    await put_in(store, laned())
    successor = laned()

    await run(store, Done(), Enqueue(successor))

    assert await state(store, successor.id) is READY


async def test_those_who_wait_come_before_what_an_end_enqueues(store):
    [_, waiting] = await put_in(store, laned(), laned())
    successor = laned()

    await run(store, Done(), Enqueue(successor))

    assert await states(store, waiting, successor.id) == [READY, WAITING]


async def test_two_workers_never_run_two_of_a_lane_at_once(store, second):
    lanes = [f"lane {number}" for number in range(4)]
    jobs = [laned(lane) for _ in range(8) for lane in lanes]
    await store.jobs.enqueue(jobs)
    ran = {lane: [] for lane in lanes}

    async def work(place, worker):
        while leases := await take(place, 3, worker=worker):
            assert len({lease.lane for lease in leases}) == len(leases)
            for lease in leases:
                ran[lease.lane].append(lease.id)
            await place.jobs.exchange([Settlement(lease, Done()) for lease in leases])

    await asyncio.gather(work(store, bytes(16)), work(second, b"\1" * 16))
    await work(store, bytes(16))

    assert ran == {lane: [job.id for job in jobs if job.lane == lane] for lane in lanes}
    assert {job.state for job in await found(store)} == {State.DONE}


async def test_a_job_of_a_lane_whose_moment_has_come_is_not_overtaken_by_one_that_is_enqueued_later(store, clock):
    [first] = await put_in(store, laned(delay=MINUTE))
    clock.turn(HOUR)
    later = await put_in(store, laned(), laned())
    [last] = await put_in(store, laned(delay=MINUTE))
    clock.turn(HOUR)

    assert await drain(store) == [first, *later, last]


async def test_a_due_job_of_a_lane_is_not_overtaken_while_its_queue_is_paused(store, clock):
    await store.queues.pause(["default"])
    [first] = await put_in(store, laned(delay=MINUTE))
    for _ in range(3):
        clock.turn(MINUTE)
        assert await take(store) == []
    [later] = await put_in(store, laned())
    clock.turn(MINUTE)
    await store.queues.resume(["default"])

    assert await drain(store) == [first, later]


async def test_more_due_jobs_of_a_lane_than_are_moved_at_once_are_not_overtaken(store, clock):
    due = []
    for _ in range(2):
        due += await put_in(store, *(laned(delay=MINUTE, lane_limit=1000) for _ in range(300)))
        clock.turn(SECOND)
    clock.turn(HOUR)
    [last] = await put_in(store, laned(lane_limit=1000))
    clock.turn(HOUR)

    taken = [lease.id for _ in range(7) for lease in await take(store, 100)]
    assert taken == [*due, last]


async def test_jobs_that_are_ready_at_the_same_moment_are_leased_in_the_order_of_arrival(store, clock):
    [first] = await put_in(store, new(delay=MINUTE))
    clock.turn(MINUTE)
    [second] = await put_in(store, new())

    assert await drain(store) == [first, second]
