"""Cancelling, replaying, dropping and watching jobs."""

import pytest

from packhorse.model.job import Receipt, Retention, State, UniqueKey
from packhorse.model.lease import Renewed, Verdict
from packhorse.model.reason import WaitReason
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    delivered,
    end,
    found,
    laned,
    lapse,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

CANCELLED = State.CANCELLED


async def test_end_jobs_that_are_not_running_ask_running_ones_to_stop_and_answer_where_each_stands_now(store, clock):
    ready, later, waiting, running = await put_in(
        store, new(priority=9), new(delay=HOUR), new(children=1), new(priority=0)
    )
    await take(store, 1)
    clock.turn(SECOND)

    answers = await store.jobs.cancel([ready, later, waiting, running])

    assert answers == [CANCELLED, CANCELLED, CANCELLED, State.RUNNING]
    off, asked = await one(store, later), await one(store, running)
    assert (off.state, off.since, off.attempt) == (CANCELLED, clock.now(), 0)
    assert (asked.state, asked.cancelling) == (State.RUNNING, True)
    assert await take(store) == []


async def test_a_job_that_has_ended_stays_as_it_is_and_an_unknown_one_is_none(store, clock):
    done, dead = await put_in(store, new(), new())
    await run(store, Done(b"1"))
    await run(store, DEAD)
    clock.turn(SECOND)
    before = await store.jobs.get([done, dead])

    answers = await store.jobs.cancel([done, new_id(), dead])

    assert answers == [State.DONE, None, State.DEAD]
    assert await store.jobs.get([done, dead]) == before


async def test_a_cancelled_job_stays_cancelled_when_cancelled_again(store, clock):
    [job] = await put_in(store, new())
    await store.jobs.cancel([job])
    before = await one(store, job)
    clock.turn(SECOND)

    assert await store.jobs.cancel([job]) == [CANCELLED]
    assert await one(store, job) == before


async def test_the_same_job_twice_in_one_cancel_is_cancelled_once(store):
    [job, behind, last] = await put_in(store, laned(), laned(), laned())

    assert await store.jobs.cancel([job, job]) == [CANCELLED, CANCELLED]

    assert await states(store, behind, last) == [State.READY, State.WAITING]


async def test_a_cancelled_job_hands_on_its_slot_frees_its_unique_key_and_is_delivered_to_its_parent(store):
    parent = new(children=1)
    child = laned(parent=parent.id, unique=UniqueKey("k"))
    behind = laned()
    await store.jobs.enqueue([parent, child, behind])

    await store.jobs.cancel([child.id])

    assert await states(store, behind.id, parent.id) == [State.READY, State.READY]
    assert await delivered(store, parent.id, child.id) == b"cancelled"
    assert (await store.jobs.enqueue([new(unique=UniqueKey("k"))]))[0].created


async def test_a_cancelled_job_is_kept_as_the_caller_says(store, clock):
    jobs = await put_in(store, new(), new())
    await store.jobs.cancel(jobs[:1], keep=Retention(10, MINUTE))
    await store.jobs.cancel(jobs[1:], keep=Retention(10, HOUR))
    clock.turn(MINUTE + 1)

    assert (await store.jobs.prune(10)).jobs == 1
    assert await states(store, *jobs) == [None, CANCELLED]


async def test_a_running_job_that_is_asked_to_stop_keeps_its_lease(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.cancel([job])

    assert await store.jobs.renew([lease], HOUR) == [Renewed.CANCELLING]
    assert await end(store, lease, Cancelled()) is Verdict.WRITTEN
    assert await state(store, job) is CANCELLED


async def test_a_scheduled_job_that_was_cancelled_never_comes_due(store, clock):
    [job] = await put_in(store, new(delay=MINUTE))
    await store.jobs.cancel([job])
    clock.turn(HOUR)

    answer = await take(store)

    assert (answer, await state(store, job)) == ([], CANCELLED)


async def test_a_cancelled_job_in_the_middle_leaves_the_others_in_order(store):
    jobs = await put_in(store, *(new() for _ in range(5)))

    await store.jobs.cancel([jobs[0], jobs[3]])

    assert [lease.id for lease in await take(store)] == [jobs[1], jobs[2], jobs[4]]


async def test_many_cancelled_jobs_hide_no_other(store):
    jobs = await put_in(store, *(new() for _ in range(500)))
    [last] = await put_in(store, new())
    await store.jobs.cancel(jobs)

    assert [lease.id for lease in await take(store, 1)] == [last]


async def test_make_dead_or_cancelled_jobs_ready_again_with_attempts_and_losses_at_zero_and_say_which_were(
    store, clock
):
    dead, off = await put_in(store, new(), new(delay=HOUR))
    [lease] = await take(store)
    clock.to(lease.until + 1)
    await store.jobs.reap(10)
    await run(store, DEAD)
    await store.jobs.cancel([off])
    clock.turn(SECOND)

    assert await store.jobs.replay([off, dead]) == [True, True]

    for job in (off, dead):
        ready = await one(store, job)
        assert (ready.state, ready.since, ready.reason) == (State.READY, clock.now(), None)
        assert (ready.attempt, ready.lost, ready.worker) == (0, 0, None)
    assert [lease.id for lease in await take(store)] == [off, dead]


async def test_a_job_that_is_not_dead_or_cancelled_stays_as_it_is(store):
    done, running, ready, later = await put_in(store, new(), new(), new(), new(delay=HOUR))
    await run(store, Done())
    await take(store, 1)
    before = await store.jobs.get([done, running, ready, later])

    answers = await store.jobs.replay([done, running, ready, later, new_id()])

    assert answers == [False] * 5
    assert await store.jobs.get([done, running, ready, later]) == before


async def test_the_same_job_twice_in_one_replay_is_replayed_once(store):
    [dead] = await put_in(store, new())
    await run(store, DEAD)

    assert await store.jobs.replay([dead, dead]) == [True, False]

    assert [lease.id for lease in await take(store)] == [dead]


async def test_a_replayed_job_runs_like_a_new_one(store):
    [job] = await put_in(store, new(payload=b"7"))
    await run(store, DEAD)
    await store.jobs.replay([job])

    lease = await run(store, Done(b"1"))

    assert (lease.payload, lease.attempt, lease.lost) == (b"7", 1, 0)
    done = await one(store, job)
    assert (done.state, done.result, done.reason) == (State.DONE, b"1", None)


async def test_a_stale_token_cannot_settle_a_replayed_job(store, clock):
    [job] = await put_in(store, new())
    [first] = await take(store)
    await end(store, first, Held(1))
    await lapse(store, clock, max_lost=1)
    await store.jobs.replay([job])
    await take(store)

    assert await end(store, first, Done()) is Verdict.LOST
    assert await state(store, job) is State.RUNNING


async def test_remove_jobs_with_all_that_belongs_to_them_whatever_their_state_and_say_which_were_there(store):
    done, dead, running, off, waiting, ready, later = jobs = await put_in(
        store, *(new(delay=delay) for delay in [0] * 6 + [HOUR])
    )
    await run(store, Done(b"1"))
    await run(store, DEAD)
    [lease] = await take(store, 1)
    await store.jobs.note([(lease, b"1")])
    await store.jobs.cancel([off])
    await run(store, Wait(WaitReason.INTERVENTION))
    assert len({job.state for job in await store.jobs.get(jobs)}) == len(State)

    dropped = await store.jobs.drop([done, dead, new_id(), running, off, waiting, ready, later])

    assert dropped == [True, True, False, True, True, True, True, True]
    assert await found(store) == []
    assert await take(store) == []


async def test_the_id_of_a_dropped_job_is_free_again(store):
    [job] = await put_in(store, new("old"))
    await run(store, Again(error=DEAD.error))
    [lease] = await take(store)
    await store.jobs.note([(lease, b"1")])
    await store.jobs.drop([job])

    assert await store.jobs.enqueue([new("new", id=job)]) == [Receipt(job, True)]

    fresh = await one(store, job)
    assert (fresh.task, fresh.attempt, fresh.failures, fresh.progress) == ("new", 0, (), None)


async def test_a_dropped_job_hands_on_its_slot_frees_its_unique_key_and_is_delivered_to_its_parent(store):
    parent = new(children=1)
    child = laned(parent=parent.id, unique=UniqueKey("k"))
    behind = laned()
    await store.jobs.enqueue([parent, child, behind])
    await take(store, 1)

    await store.jobs.drop([child.id])

    assert await states(store, behind.id, parent.id) == [State.READY, State.READY]
    assert await delivered(store, parent.id, child.id) == b"dropped"
    assert (await store.jobs.enqueue([new(unique=UniqueKey("k"))]))[0].created


async def test_an_ended_job_that_is_dropped_hands_on_nothing_twice(store):
    jobs = await put_in(store, *(laned() for _ in range(3)))
    await run(store, Done())

    await store.jobs.drop([jobs[0]])

    assert await states(store, *jobs) == [None, State.READY, State.WAITING]


async def test_the_lease_of_a_dropped_job_is_lost(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)

    await store.jobs.drop([job])

    assert await end(store, lease, Done()) is Verdict.LOST
    assert await store.jobs.renew([lease], HOUR) == [Renewed.LOST]
    assert await store.jobs.note([(lease, b"1")]) == [Verdict.LOST]


async def test_a_dropped_job_is_never_taken_back(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    await store.jobs.drop([job])
    clock.turn(HOUR)

    assert await store.jobs.reap(10) == []


async def test_a_job_enqueued_with_the_id_of_a_dropped_one_is_not_for_the_old_lease(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.drop([job])
    await store.jobs.enqueue([new(id=job)])
    await take(store)

    assert await end(store, lease, Done()) is Verdict.LOST
    assert await state(store, job) is State.RUNNING


async def test_a_job_in_line_that_was_dropped_and_enqueued_again_is_leased_once(store):
    [job, other] = await put_in(store, new(), new())
    await store.jobs.drop([job])
    await store.jobs.enqueue([new(id=job)])

    assert [lease.id for lease in await take(store)] == [other, job]


async def test_a_scheduled_job_that_was_dropped_and_enqueued_again_keeps_its_new_moment(store, clock):
    [job] = await put_in(store, new(delay=MINUTE))
    await store.jobs.drop([job])
    await store.jobs.enqueue([new(id=job, delay=HOUR)])
    clock.turn(2 * MINUTE)

    assert await take(store) == []
    clock.turn(HOUR)
    assert [lease.id for lease in await take(store)] == [job]


@pytest.mark.parametrize("verb", ["cancel", "replay", "promote", "drop", "get"])
async def test_no_ids_are_no_trouble(store, verb):
    assert await getattr(store.jobs, verb)([]) == []


async def test_register_interest_in_the_end_of_jobs_for_a_time_and_answer_those_that_have_ended_already_and_none_for_unknown_ones(
    store,
):
    done, dead, off, ready = await put_in(store, new(), new(), new(), new(priority=99))
    unknown = new_id()
    await run(store, Done(b"1"))
    await run(store, DEAD)
    await store.jobs.cancel([off])

    ended = await store.jobs.watch([done, ready, off, unknown, dead, done], MINUTE)

    assert ended == {unknown: None, **{job: await one(store, job) for job in (done, off, dead)}}
    assert await store.jobs.watch([], MINUTE) == {}
