"""Leases that ran out and are taken back: what counts as a loss, and when a job is dead of it."""

import asyncio

import pytest

from packhorse.model.job import Retention, State
from packhorse.model.lease import Lost
from packhorse.model.reason import DeadReason
from tests.factories import HOUR, WORKER, Again, laned, lapse, lose, new, one, put_in, run, state, states, take


async def test_take_back_leases_that_ran_out_at_most_as_many_as_the_limit_and_say_which(store, clock):
    jobs = await put_in(store, *(new() for _ in range(5)))
    leases = await take(store)
    clock.to(leases[0].until + 1)

    first = await store.jobs.reap(3)
    second = await store.jobs.reap(3)

    assert (len(first), len(second)) == (3, 2)
    assert sorted(lost.id for lost in first + second) == sorted(jobs)
    assert first[0] == Lost(first[0].id, WORKER, 1, 1, State.READY)
    assert await store.jobs.reap(3) == []


async def test_a_lease_that_is_not_over_stays(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.to(lease.until - 1)

    assert await store.jobs.reap(10) == []
    assert await state(store, job) is State.RUNNING


async def test_a_job_taken_back_is_ready_again_and_keeps_its_slot_in_its_lane(store, clock):
    [job, behind] = await put_in(store, laned(), laned())
    [lease] = await take(store)
    clock.to(lease.until + 1)

    [lost] = await store.jobs.reap(10)

    ready = await one(store, job)
    assert (lost.id, lost.state) == (job, State.READY)
    assert (ready.state, ready.worker, ready.since) == (State.READY, None, clock.now())
    assert await state(store, behind) is State.WAITING


@pytest.mark.parametrize("steps", [(), (1,)])
async def test_the_first_loss_of_a_job_counts(store, clock, steps):
    [job] = await put_in(store, new())

    [lost] = await lose(store, clock, *steps)

    ready = await one(store, job)
    assert (lost.lost, lost.attempt) == (ready.lost, ready.attempt) == (1, 1)


async def test_a_later_loss_counts_if_a_held_step_says_that_the_attempt_had_begun(store, clock):
    [job] = await put_in(store, new())
    await lose(store, clock)

    [lost] = await lose(store, clock, 1)

    ready = await one(store, job)
    assert (lost.lost, lost.attempt) == (ready.lost, ready.attempt) == (2, 2)


async def test_an_attempt_of_a_job_lost_before_that_held_no_step_had_not_begun_and_is_not_charged(store, clock):
    [job] = await put_in(store, new())
    await lose(store, clock)

    for _ in range(5):
        [lost] = await lose(store, clock)
        ready = await one(store, job)
        assert (lost.lost, lost.attempt, lost.state) == (1, 1, State.READY)
        assert (ready.lost, ready.attempt, ready.state) == (1, 1, State.READY)


async def test_a_step_of_an_earlier_attempt_says_nothing_of_the_next(store, clock):
    [job] = await put_in(store, new())
    await lose(store, clock, 1)

    await lose(store, clock)

    ready = await one(store, job)
    assert (ready.lost, ready.attempt) == (1, 1)


async def test_a_step_that_is_held_twice_is_one_loss(store, clock):
    [job] = await put_in(store, new())
    await lose(store, clock)

    await lose(store, clock, 1, 1)

    assert (await one(store, job)).lost == 2


async def test_the_next_lease_of_a_job_taken_back_shows_its_losses(store, clock):
    await put_in(store, new())
    await take(store)
    await lapse(store, clock)

    [lease] = await take(store)

    assert (lease.attempt, lease.lost) == (2, 1)


async def test_losses_stay_through_retries(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    await lapse(store, clock)

    await run(store, Again())

    assert (await one(store, job)).lost == 1
    assert (await take(store))[0].lost == 1


async def test_a_job_that_was_lost_too_often_is_dead_as_poison_if_its_last_attempt_held_a_step(store, clock):
    [job] = await put_in(store, new())
    for steps in [(), (1,), ()]:
        [lost] = await lose(store, clock, *steps)
        assert lost.state is State.READY

    [lost] = await lose(store, clock, 1)

    dead = await one(store, job)
    assert (lost.lost, lost.state) == (3, State.DEAD)
    assert (dead.state, dead.reason, dead.lost, dead.attempt) == (State.DEAD, DeadReason.POISON, 3, 3)
    assert dead.since == clock.now()


async def test_a_job_replayed_after_too_many_losses_may_be_lost_as_often_again(store, clock):
    [job] = await put_in(store, new())
    for steps in [(), (1,), (1,)]:
        await lose(store, clock, *steps)

    assert await store.jobs.replay([job]) == [True]

    states = [(await lose(store, clock, *steps))[0].state for steps in [(), (1,), (1,)]]
    assert states == [State.READY, State.READY, State.DEAD]


async def test_how_often_a_job_may_be_lost_is_for_the_caller_to_say(store, clock):
    jobs = await put_in(store, new(), new())
    await lose(store, clock, 1, count=1, max_lost=1)

    [lost] = await lose(store, clock, 1, max_lost=1000)

    assert lost.state is State.READY
    assert await states(store, *jobs) == [State.DEAD, State.READY]


async def test_a_poisoned_job_is_kept_as_the_caller_says(store, clock):
    [job] = await put_in(store, new())
    await lose(store, clock, 1, max_lost=1, keep=Retention(10, HOUR))

    clock.turn(HOUR + 1)

    assert (await store.jobs.prune(10)).jobs == 1
    assert await state(store, job) is None


async def test_a_job_that_is_to_be_cancelled_is_cancelled_when_its_lease_is_taken_back(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    await store.jobs.cancel([job])

    [lost] = await lapse(store, clock)

    assert lost.state is State.CANCELLED
    assert await state(store, job) is State.CANCELLED


async def test_a_job_cancelled_when_its_lease_is_taken_back_is_kept_like_any_cancelled_one(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    await store.jobs.cancel([job])
    await lapse(store, clock, keep=Retention(0, 0))

    assert (await store.jobs.prune(10)).jobs == 0
    assert await state(store, job) is State.CANCELLED


async def test_two_who_reap_at_once_take_each_lease_back_once(store, second, clock):
    jobs = await put_in(store, *(new() for _ in range(50)))
    await take(store, 50)
    clock.turn(HOUR)

    answers = await asyncio.gather(*(place.jobs.reap(30) for place in (store, second) * 2))
    rest = await store.jobs.reap(100)

    assert sorted(lost.id for answer in [*answers, rest] for lost in answer) == sorted(jobs)
    assert {(await one(store, job)).lost for job in jobs} == {1}
