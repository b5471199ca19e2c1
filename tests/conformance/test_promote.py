"""Jobs that a person makes ready before their moment."""

import asyncio

import pytest

from packhorse.model.effect import Enqueue, Put
from packhorse.model.job import State, UniqueKey, Until
from packhorse.model.lease import Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.factories import (
    BROKEN,
    DEAD,
    HOUR,
    MINUTE,
    OTHER,
    SECOND,
    Again,
    Done,
    Wait,
    ask,
    drain,
    end,
    laned,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

READY, WAITING, SCHEDULED = State.READY, State.WAITING, State.SCHEDULED
PERSON = Wait(WaitReason.INTERVENTION, detail="look at it")


async def test_make_scheduled_jobs_and_jobs_that_wait_for_a_person_ready_now_and_say_which_were(store, clock):
    asking, later, retry = await put_in(store, new(), new(delay=HOUR), new(priority=0))
    await run(store, Again(delay=HOUR))
    await run(store, PERSON)
    clock.turn(SECOND)

    assert await store.jobs.promote([later, asking, new_id(), retry]) == [True, True, False, True]

    for job in (asking, later, retry):
        ready = await one(store, job)
        assert (ready.state, ready.since, ready.reason) == (READY, clock.now(), None)
    assert [lease.id for lease in await take(store)] == [retry, later, asking]


async def test_a_promoted_job_asks_its_lane_unless_it_holds_a_slot_already(store):
    retry, later, holder, behind = await put_in(store, laned("b"), laned(delay=HOUR), laned(), laned())
    await run(store, Again(delay=HOUR))

    assert await store.jobs.promote([later, retry]) == [True, True]

    assert await states(store, retry, holder) == [READY, READY]
    assert (await one(store, later)).reason is WaitReason.LANE
    assert await drain(store) == [holder, retry, behind, later]


async def test_a_job_whose_moment_has_come_or_that_stands_elsewhere_stays_as_it_is(store, clock):
    queue = "other"
    done, dead, running, off, limited, come = await put_in(
        store, *(new(queue=queue) for _ in range(5)), new(queue=queue, delay=MINUTE)
    )
    signal, ready, family, lane, last = await put_in(
        store, new(priority=0), laned(), new(children=1), laned(), laned(delay=HOUR)
    )
    await store.jobs.cancel([off])
    for outcome in (Done(), DEAD):
        await run(store, outcome, queue=queue)
    await take(store, 1, queue)
    await run(store, Wait(WaitReason.LIMIT), queue=queue)
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))
    clock.turn(2 * MINUTE)
    jobs = [done, dead, running, off, limited, come, signal, ready, family, lane]
    before = await store.jobs.get(jobs)

    assert await store.jobs.promote(jobs) == [False] * len(jobs)

    assert await store.jobs.get(jobs) == before
    assert await store.jobs.promote([last]) == [True]
    assert [lease.id for lease in await take(store, 10, queue, worker=OTHER)] == [come]


async def test_the_same_job_twice_in_one_promotion_is_promoted_once(store):
    later, asking = await put_in(store, laned(delay=HOUR), new())
    await run(store, PERSON)

    assert await store.jobs.promote([later, asking, later, asking]) == [True, True, False, False]

    assert [lease.id for lease in await take(store)] == [later, asking]


async def test_a_promotion_again_after_a_lost_answer_changes_nothing(store, clock):
    jobs = await put_in(store, new(delay=HOUR), laned(delay=HOUR), laned(delay=HOUR))
    await store.jobs.promote(jobs)
    before = await store.jobs.get(jobs)
    clock.turn(SECOND)

    assert await store.jobs.promote(jobs) == [False] * 3

    assert await store.jobs.get(jobs) == before


async def test_promoted_jobs_come_after_those_that_were_ready_before_them(store, clock):
    worse, first, late, better = await put_in(
        store, new(priority=20), new(), new(delay=HOUR), new(priority=1, delay=HOUR)
    )
    [come] = await put_in(store, new(delay=MINUTE))
    clock.turn(2 * MINUTE)
    await store.jobs.promote([late, better])
    clock.turn(SECOND)
    [last] = await put_in(store, new())

    assert [lease.id for lease in await take(store)] == [better, first, come, late, last, worse]


async def test_a_promoted_job_keeps_its_attempts_losses_failures_and_progress(store, clock):
    [job] = await put_in(store, new())
    await take(store)
    clock.turn(HOUR)
    await store.jobs.reap(10)
    [lease] = await take(store)
    await store.jobs.note([(lease, b"7")])
    await end(store, lease, Again(delay=HOUR, error=BROKEN))
    before = await one(store, job)

    await store.jobs.promote([job])

    ready = await one(store, job)
    assert (ready.attempt, ready.lost, ready.progress) == (2, 1, b"7")
    assert ready.failures == before.failures != ()
    assert [(lease.attempt, lease.lost) for lease in await take(store)] == [(3, 1)]


@pytest.mark.parametrize("until", [Until.STARTED, Until.FINISHED])
async def test_a_promoted_job_keeps_its_unique_key_as_long_as_any_other(store, until):
    [job] = await put_in(store, new(delay=HOUR, unique=UniqueKey("k", until)))

    await store.jobs.promote([job])

    other = new(unique=UniqueKey("k"))
    assert [receipt.id for receipt in await store.jobs.enqueue([other])] == [job]
    [lease] = await take(store)
    assert (await store.jobs.enqueue([other]))[0].created is (until is Until.STARTED)
    await end(store, lease, Done())
    assert (await store.jobs.enqueue([new(unique=UniqueKey("k"))]))[0].created is (until is Until.FINISHED)


async def test_a_promoted_job_with_a_slot_runs_before_those_behind_it(store):
    jobs = await put_in(store, laned(), laned())
    await run(store, PERSON)
    assert await take(store) == []

    assert await store.jobs.promote([jobs[1]]) == [False]
    assert await store.jobs.promote([jobs[0]]) == [True]

    assert await states(store, *jobs) == [READY, WAITING]
    assert await drain(store) == jobs


async def test_promoted_jobs_ask_their_lane_in_the_order_given(store):
    jobs = await put_in(store, *(laned(delay=HOUR, lane_limit=2) for _ in range(4)))

    await store.jobs.promote([jobs[2], jobs[0], jobs[3], jobs[1]])

    assert await states(store, *jobs) == [READY, WAITING, READY, WAITING]
    assert await drain(store) == [jobs[2], jobs[0], jobs[3], jobs[1]]


async def test_the_slot_of_a_promoted_job_is_handed_on_at_its_end(store):
    first, second = await put_in(store, laned(delay=HOUR), laned(delay=HOUR))
    await store.jobs.promote([first])
    [third] = await put_in(store, laned())
    await store.jobs.promote([second])
    assert await states(store, first, second, third) == [READY, WAITING, WAITING]

    await store.jobs.cancel([first])

    assert await states(store, second, third) == [WAITING, READY]
    assert await drain(store) == [third, second]


async def test_a_promoted_job_comes_due_no_more(store, clock):
    [job] = await put_in(store, new(delay=HOUR))
    await store.jobs.promote([job])
    answer = await store.jobs.exchange([], ask())
    assert ([lease.id for lease in answer.leases], answer.next_due) == ([job], None)
    await end(store, answer.leases[0], Done())

    clock.turn(2 * HOUR)

    assert await take(store) == []


async def test_a_promoted_job_of_a_paused_queue_is_given_when_it_is_resumed(store):
    [job] = await put_in(store, new(delay=HOUR))
    await store.queues.pause(["default"])

    assert await store.jobs.promote([job]) == [True]

    assert (await take(store), await state(store, job)) == ([], READY)
    await store.queues.resume(["default"])
    assert [lease.id for lease in await take(store)] == [job]


async def test_a_promoted_job_is_counted_and_found_as_ready(store, clock):
    jobs = await put_in(store, new(delay=HOUR), new(delay=2 * HOUR))
    clock.turn(SECOND)

    await store.jobs.promote(jobs[:1])

    [queue] = await store.queues.stats()
    assert (queue.counts[READY], queue.counts[SCHEDULED]) == (1, 1)
    assert (queue.oldest_ready, queue.next_due) == (clock.now(), clock.now() - SECOND + 2 * HOUR)


async def early(store, verb: str) -> bytes:
    """A job that is leased long before its first moment can come."""
    [job] = await put_in(store, new(delay=HOUR))
    if verb == "replay":
        await store.jobs.cancel([job])
    assert await getattr(store.jobs, verb)([job]) == [True]
    return job


@pytest.mark.parametrize("verb", ["promote", "replay"])
async def test_a_job_made_ready_early_is_not_held_up_by_its_first_moment_when_it_was_released(store, verb):
    job = await early(store, verb)
    await run(store, PERSON)

    await store.jobs.release(WaitReason.INTERVENTION)

    assert await state(store, job) is READY


@pytest.mark.parametrize("verb", ["promote", "replay"])
async def test_a_job_made_ready_early_is_not_held_up_by_its_first_moment_when_its_signal_came(store, verb):
    job = await early(store, verb)
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))

    await store.records.put([Put("signal", "go", b"1")])

    assert await state(store, job) is READY


@pytest.mark.parametrize("verb", ["promote", "replay"])
async def test_a_job_made_ready_early_is_not_held_up_by_its_first_moment_when_its_children_ended(store, verb):
    job = await early(store, verb)
    await run(store, Wait(WaitReason.CHILDREN, children=1), Enqueue(new(parent=job)))

    await run(store, Done())

    assert await state(store, job) is READY


async def test_a_parent_whose_children_have_ended_can_be_promoted(store):
    parent = new(children=1, delay=HOUR)
    await store.jobs.enqueue([parent, new(parent=parent.id)])
    assert await store.jobs.promote([parent.id]) == [False]
    await run(store, Done())

    assert await store.jobs.promote([parent.id]) == [True]

    assert [lease.id for lease in await take(store)] == [parent.id]


async def test_the_settlement_of_the_try_before_is_known_after_a_promotion(store):
    [job] = await put_in(store, new())
    lease = await run(store, PERSON)
    await store.jobs.promote([job])
    await take(store, worker=OTHER)

    assert await end(store, lease, PERSON) is Verdict.REPEATED
    assert (await one(store, job)).worker == OTHER


async def test_a_promoted_job_can_be_cancelled_dropped_and_retried_like_any_other(store):
    off, gone, again = await put_in(store, *(new(delay=HOUR) for _ in range(3)))
    await store.jobs.promote([off, gone, again])

    await store.jobs.cancel([off])
    await store.jobs.drop([gone])
    await run(store, Again(delay=HOUR))

    assert await states(store, off, gone, again) == [State.CANCELLED, None, SCHEDULED]
    assert await store.jobs.promote([again]) == [True]
    assert await take(store) != []


async def test_as_many_jobs_as_a_call_may_carry_are_promoted(store):
    jobs = await put_in(store, *(laned(f"k{n % 7}", delay=HOUR) for n in range(500)))

    assert await store.jobs.promote(jobs) == [True] * 500

    counts = (await store.jobs.count())["default"]
    assert (counts[READY], counts[WAITING]) == (7, 493)


async def test_two_who_promote_at_once_promote_each_job_once(store, second):
    jobs = await put_in(store, *(laned(f"k{n % 3}", delay=HOUR) for n in range(30)))

    answers = await asyncio.gather(
        store.jobs.promote(jobs), second.jobs.promote(jobs[::-1]), store.jobs.promote(jobs[10:])
    )

    assert sum(sum(answer) for answer in answers) == 30
    assert sorted(await drain(store)) == sorted(jobs)
