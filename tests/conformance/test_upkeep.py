"""Keeping leases, releasing what waits, and notes of progress."""

import msgspec
import pytest

from packhorse.errors import InvalidInput
from packhorse.model.effect import Put
from packhorse.model.ids import new_token
from packhorse.model.job import State
from packhorse.model.lease import Renewed, Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.factories import (
    HOUR,
    MINUTE,
    OTHER,
    SECOND,
    Done,
    Held,
    Wait,
    ask,
    end,
    laned,
    lapse,
    new,
    one,
    put_in,
    run,
    state,
    states,
    take,
)


async def test_extend_leases_by_this_duration_from_now(store, clock):
    jobs = await put_in(store, new(), new())
    leases = await take(store)
    clock.turn(SECOND)

    renewed = await store.jobs.renew(leases, MINUTE)

    assert renewed == [Renewed.KEPT, Renewed.KEPT]
    assert [(await one(store, job)).until for job in jobs] == [clock.now() + MINUTE] * 2


async def test_a_renewal_does_not_change_since_when_a_job_is_running(store, clock):
    [job] = await put_in(store, new())
    request = ask()
    [lease] = (await store.jobs.exchange([], request)).leases
    claimed = clock.now()
    for _ in range(2):
        clock.turn(SECOND)
        await store.jobs.renew([lease], HOUR)
    await end(store, lease, Held(1))
    await store.jobs.cancel([job])

    running = await one(store, job)
    assert (running.since, running.until) == (claimed, clock.now() + HOUR)
    [again] = (await store.jobs.exchange([], request)).leases
    assert (again.claimed, again.until) == (claimed, clock.now() + HOUR)


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
    assert (await one(store, odd.id)).until > clock.now() + MINUTE


async def test_a_lease_that_another_worker_holds_now_is_lost(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await lapse(store, clock)
    [second] = await take(store, worker=OTHER)

    assert await store.jobs.renew([lease], HOUR) == [Renewed.LOST]
    assert (await one(store, job)).until == second.until


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

    assert (await one(store, job)).until == clock.now() + MINUTE


async def test_a_renewal_leaves_held_steps_as_they_are(store):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Held(2))

    await store.jobs.renew([lease], HOUR)

    assert await end(store, lease, Held(2)) is Verdict.REPEATED


async def test_no_leases_to_renew_are_no_trouble(store):
    assert await store.jobs.renew([], MINUTE) == []


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
    assert (running.state, running.until, running.attempt) == (State.RUNNING, lease.until, 1)
