"""Keeping leases, taking them back, releasing what waits, and notes of progress."""

import asyncio

import msgspec
import pytest

from packhorse.errors import InvalidInput
from packhorse.model.effect import Put
from packhorse.model.ids import new_token
from packhorse.model.job import Keep, State
from packhorse.model.lease import Lost, Renewed, Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import DeadReason, WaitReason
from tests.making import (
    HOUR,
    MINUTE,
    OTHER,
    SECOND,
    WORKER,
    Again,
    Done,
    Held,
    Wait,
    ask,
    end,
    laned,
    new,
    one,
    put_in,
    run,
    state,
    states,
    take,
)


async def lapse(store, clock, **options) -> list[Lost]:
    """Let every lease run out and take it back."""
    clock.turn(HOUR)
    return await store.jobs.reap(1000, **options)


async def test_extend_leases_by_this_duration_from_now(store, clock):
    jobs = await put_in(store, new(), new())
    leases = await take(store)
    clock.turn(SECOND)

    renewed = await store.jobs.renew(leases, MINUTE)

    assert renewed == [Renewed.KEPT, Renewed.KEPT]
    assert [(await one(store, job)).since for job in jobs] == [clock.now() + MINUTE] * 2


async def test_a_renewed_lease_is_not_taken_back_at_its_old_end(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.renew([lease], HOUR)
    clock.to(lease.until + 1)

    assert await store.jobs.reap(10) == []
    assert await state(store, job) is State.RUNNING


async def test_a_lease_can_be_shortened(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.renew([lease], 1000)
    clock.turn(1001)

    assert [lost.id for lost in await store.jobs.reap(10)] == [job]


async def test_a_lease_that_is_gone_or_has_another_token_is_lost(store, clock):
    await put_in(store, *(new() for _ in range(5)))
    kept, settled, dropped, odd, taken = await take(store)
    await store.jobs.renew([kept, settled, dropped, odd], HOUR)
    await end(store, settled, Done())
    await store.jobs.drop([dropped.id])
    clock.to(taken.until + 1)
    await store.jobs.reap(10)
    stranger = msgspec.structs.replace(odd, token=new_token())

    renewed = await store.jobs.renew([settled, kept, dropped, stranger, taken], MINUTE)

    lost = Renewed.LOST
    assert renewed == [lost, Renewed.KEPT, lost, lost, lost]
    assert (await one(store, odd.id)).since > clock.now() + MINUTE


async def test_a_lease_that_another_worker_holds_now_is_lost(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await lapse(store, clock)
    [second] = await take(store, worker=OTHER)

    assert await store.jobs.renew([lease], HOUR) == [Renewed.LOST]
    assert (await one(store, job)).since == second.until


async def test_a_lease_that_ran_out_but_was_not_taken_back_is_kept(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.to(lease.until + MINUTE)

    assert await store.jobs.renew([lease], MINUTE) == [Renewed.KEPT]

    assert await store.jobs.reap(10) == []
    assert await state(store, job) is State.RUNNING


async def test_a_lease_of_a_job_that_is_to_be_cancelled_is_extended_and_says_so(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.cancel([job])
    clock.turn(SECOND)

    assert await store.jobs.renew([lease], MINUTE) == [Renewed.CANCELLING]

    assert (await one(store, job)).since == clock.now() + MINUTE


async def test_a_renewal_leaves_held_steps_as_they_are(store):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(2))

    await store.jobs.renew([lease], HOUR)

    assert await end(store, lease, Held(2)) is Verdict.REPEATED


async def test_no_leases_to_renew_are_no_trouble(store):
    assert await store.jobs.renew([], MINUTE) == []


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


async def test_a_job_taken_back_is_ready_again_keeps_its_slot_in_its_lane_and_has_one_loss_more(store, clock):
    [job, behind] = await put_in(store, laned(), laned())
    [lease] = await take(store)
    clock.to(lease.until + 1)

    [lost] = await store.jobs.reap(10)

    ready = await one(store, job)
    assert (lost.id, lost.lost, lost.state) == (job, 1, State.READY)
    assert (ready.state, ready.lost, ready.attempt, ready.worker) == (State.READY, 1, 1, None)
    assert ready.since == clock.now()
    assert await state(store, behind) is State.WAITING


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


async def test_a_job_that_was_lost_too_often_is_dead_as_poison(store, clock):
    [job] = await put_in(store, new())
    for _ in range(2):
        await take(store)
        [lost] = await lapse(store, clock)
        assert lost.state is State.READY
    await take(store)

    [lost] = await lapse(store, clock)

    dead = await one(store, job)
    assert (lost.lost, lost.state) == (3, State.DEAD)
    assert (dead.state, dead.reason, dead.lost) == (State.DEAD, DeadReason.POISON, 3)
    assert dead.since == clock.now()


async def test_how_often_a_job_may_be_lost_is_for_the_caller_to_say(store, clock):
    jobs = await put_in(store, new(), new())
    await take(store, 1)
    assert [lost.state for lost in await lapse(store, clock, max_lost=1)] == [State.DEAD]
    await take(store)

    assert [lost.state for lost in await lapse(store, clock, max_lost=1000)] == [State.READY]
    assert await states(store, *jobs) == [State.DEAD, State.READY]


async def test_a_poisoned_job_is_kept_as_the_caller_says(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    await lapse(store, clock, max_lost=1, keep=Keep(10, HOUR))

    clock.turn(HOUR + 1)

    assert await store.jobs.prune(10) == 1
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
    await lapse(store, clock, keep=Keep(0, 0))

    assert await store.jobs.prune(10) == 0
    assert await state(store, job) is State.CANCELLED


async def test_two_who_reap_at_once_take_each_lease_back_once(store, second, clock):
    jobs = await put_in(store, *(new() for _ in range(50)))
    await take(store, 50)
    clock.turn(HOUR)

    answers = await asyncio.gather(*(place.jobs.reap(30) for place in (store, second) * 2))
    rest = await store.jobs.reap(100)

    assert sorted(lost.id for answer in [*answers, rest] for lost in answer) == sorted(jobs)
    assert {(await one(store, job)).lost for job in jobs} == {1}


async def test_make_jobs_ready_that_wait_for_this_reason_those_that_wait_longest_first_at_most_as_many_as_the_limit(
    store, clock
):
    jobs = await put_in(store, *(new(priority=9 - number) for number in range(4)))
    leases = {lease.id: lease for lease in await take(store)}
    for job in jobs[:3]:
        clock.turn(SECOND)
        await end(store, leases[job], Wait(WaitReason.CIRCUIT))
    await end(store, leases[jobs[3]], Wait(WaitReason.LIMIT))
    clock.turn(SECOND)

    assert await store.jobs.release(WaitReason.CIRCUIT, limit=2) == 2

    ready, waiting = State.READY, State.WAITING
    assert await states(store, *jobs) == [ready, ready, waiting, waiting]
    assert (await one(store, jobs[0])).since == clock.now()


async def test_what_was_released_is_counted(store):
    await put_in(store, new(), new())
    for _ in range(2):
        await run(store, Wait(WaitReason.CIRCUIT))

    counts = [await store.jobs.release(WaitReason.CIRCUIT) for _ in range(2)]

    assert counts == [2, 0]


async def test_with_tasks_given_only_jobs_of_those_tasks_are_released(store):
    jobs = await put_in(store, new("a"), new("b"), new("c"))
    for _ in jobs:
        await run(store, Wait(WaitReason.UNROUTABLE))

    assert await store.jobs.release(WaitReason.UNROUTABLE, tasks=["a", "c", "d"]) == 2

    assert await states(store, *jobs) == [State.READY, State.WAITING, State.READY]


async def test_with_no_task_given_by_name_nothing_is_released(store):
    [job] = await put_in(store, new("a"))
    await run(store, Wait(WaitReason.UNROUTABLE))

    assert await store.jobs.release(WaitReason.UNROUTABLE, tasks=[]) == 0
    assert await state(store, job) is State.WAITING


async def test_jobs_behind_a_lane_or_waiting_for_children_are_not_for_release_and_asking_for_it_is_refused(store):
    jobs = await put_in(store, laned(), laned(), new(children=1))

    for reason in (WaitReason.LANE, WaitReason.CHILDREN):
        with pytest.raises(InvalidInput):
            await store.jobs.release(reason)

    assert await states(store, *jobs) == [State.READY, State.WAITING, State.WAITING]


@pytest.mark.parametrize("reason", [reason for reason in WaitReason if reason not in ("lane", "children")])
async def test_a_job_can_be_released_from_every_other_reason(store, reason):
    on = On("signal", "go") if reason is WaitReason.SIGNAL else None
    [job] = await put_in(store, new())
    await run(store, Wait(reason, on))
    assert (await one(store, job)).reason is reason

    assert await store.jobs.release(reason) == 1

    assert (await take(store))[0].attempt == 1


async def test_a_released_job_waits_for_its_signal_no_more(store):
    [job] = await put_in(store, new())
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))
    await store.jobs.release(WaitReason.SIGNAL)
    await run(store, Done())

    await store.records.put([Put("signal", "go", b"1")])

    assert await state(store, job) is State.DONE


async def test_keep_the_latest_progress_of_running_jobs(store):
    jobs = await put_in(store, new(), new())
    first, second = await take(store)
    await store.jobs.note([(first, b"10"), (second, b"20")])

    verdicts = await store.jobs.note([(first, b"30")])

    assert verdicts == [Verdict.WRITTEN]
    assert [(await one(store, job)).progress for job in jobs] == [b"30", b"20"]


async def test_a_note_with_a_stale_token_changes_nothing_and_comes_back_as_lost(store, clock):
    [job, _] = await put_in(store, new(), new())
    first, other = await take(store)
    await store.jobs.note([(first, b"1")])
    await end(store, other, Done())
    await lapse(store, clock)
    [second] = await take(store, worker=OTHER)

    verdicts = await store.jobs.note([(first, b"2"), (second, b"3"), (other, b"4")])

    assert verdicts == [Verdict.LOST, Verdict.WRITTEN, Verdict.LOST]
    assert (await one(store, job)).progress == b"3"


async def test_a_note_leaves_the_lease_as_it_is(store, clock):
    [job] = await put_in(store, new())
    [lease] = (await store.jobs.exchange([], ask())).leases
    clock.turn(SECOND)

    await store.jobs.note([(lease, b"1")])

    running = await one(store, job)
    assert (running.state, running.since, running.attempt) == (State.RUNNING, lease.until, 1)
