"""What the stream of the lifecycle of jobs tells of each call."""

import asyncio

import pytest

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.event import LIFECYCLE, Change, pack, unpack
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Dead, On
from packhorse.model.reason import WaitReason
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    ask,
    changes,
    end,
    laned,
    lose,
    new,
    new_id,
    one,
    put_in,
    run,
    take,
)

KINDS = {
    Held: Change.HELD, Done: Change.DONE, Again: Change.AGAIN, Wait: Change.WAITING, Dead: Change.DEAD,
    Cancelled: Change.CANCELLED,
}  # fmt: skip


async def reported(store, after: int) -> list[tuple[Change, bytes]]:
    """The changes of the one event there must be after an offset."""
    [event] = await changes(store, after)
    return event


async def now(store) -> int:
    """The offset of the last event."""
    return len(await changes(store))


async def test_each_call_that_changes_jobs_adds_one_packed_event_to_the_stream_of_the_lifecycle_of_jobs(store, clock):
    first, second = await put_in(store, new(), new())
    leases = await take(store)
    clock.turn(HOUR)

    await store.jobs.exchange([Settlement(leases[0], Done()), Settlement(leases[1], Again())], ask())

    assert [sorted(event) for event in await changes(store)] == [
        sorted([(Change.ENQUEUED, first), (Change.ENQUEUED, second)]),
        sorted([(Change.CLAIMED, first), (Change.CLAIMED, second)]),
        sorted([(Change.DONE, first), (Change.AGAIN, second), (Change.CLAIMED, second)]),
    ]
    events = await store.streams.read(LIFECYCLE)
    assert [event.offset for event in events] == [1, 2, 3]
    assert [event.at for event in events] == [clock.now() - HOUR] * 2 + [clock.now()]


async def test_a_call_tells_of_a_job_in_the_order_it_happened(store):
    parent, again, held = await put_in(store, new(), new(), new())
    leases = {lease.id: lease for lease in await take(store)}
    child, before = new(), await now(store)
    ends = [Settlement(leases[parent], Done(), (Enqueue(child),)), Settlement(leases[again], Again())]
    both = [Settlement(leases[held], Held(1)), Settlement(leases[held], Done())]

    await store.jobs.exchange([*ends, *both], ask())

    event = await reported(store, before)
    assert [change for change, job in event if job == held] == [Change.HELD, Change.DONE]
    assert [change for change, job in event if job == again] == [Change.AGAIN, Change.CLAIMED]
    assert [change for change, job in event if job == child.id] == [Change.ENQUEUED, Change.CLAIMED]
    assert event.index((Change.DONE, parent)) < event.index((Change.CLAIMED, child.id))


async def test_changes_are_packed_into_the_same_bytes_by_every_store(store):
    await put_in(store, *(new() for _ in range(12)))
    leases = await take(store, 12)
    ready = await put_in(store, new(queue="next", priority=2), new(queue="next", priority=1))
    children, before = [new() for _ in range(4)], await now(store)
    outcomes = (
        Cancelled(), DEAD, Wait(WaitReason.LIMIT), Again(), Done(), Held(1),
        Held(1), Done(), Again(HOUR), Wait(WaitReason.VERSION), DEAD, Cancelled(),
    )  # fmt: skip
    effects = {
        1: (Enqueue(children[0]), Publish("news", b"1"), Enqueue(children[1])),
        4: (Enqueue(children[2]), Put("kind", "key", b"1"), Publish("news", b"2")),
        6: (Publish("news", b"3"), Enqueue(children[3])),
    }
    ends = [
        Settlement(lease, outcome, effects.get(n, ()))
        for n, (lease, outcome) in enumerate(zip(leases, outcomes, strict=True))
    ]

    await store.jobs.exchange(ends, ask(10, "next"))

    [event] = await store.streams.read(LIFECYCLE, after=before)
    packed = {
        change: [lease.id for lease, outcome in zip(leases, outcomes, strict=True) if isinstance(outcome, kind)]
        for kind, change in KINDS.items()
    }
    created = {Change.ENQUEUED: [child.id for child in children], Change.CLAIMED: [ready[1], ready[0]]}
    assert event.data == pack({**packed, **created})


async def test_losses_are_packed_into_the_same_bytes_by_every_store(store, clock):
    jobs = await put_in(store, *(new() for _ in range(4)))
    for n in range(4):
        [lease] = (await store.jobs.exchange((), ask(1, lease=(4 - n) * MINUTE))).leases
        await end(store, lease, Held(1))
    await store.jobs.cancel([jobs[1], jobs[3]])
    clock.turn(HOUR)
    before = await now(store)

    await store.jobs.reap(10, max_lost=1)

    [event] = await store.streams.read(LIFECYCLE, after=before)
    late = [*reversed(jobs)]
    assert event.data == pack(
        {Change.LOST: late, Change.DEAD: [jobs[2], jobs[0]], Change.CANCELLED: [jobs[3], jobs[1]]}
    )


async def test_only_jobs_that_were_created_are_reported(store):
    first, holder = new(), new()
    await store.jobs.enqueue([first])

    await store.jobs.enqueue([first, holder])

    assert await reported(store, 1) == [(Change.ENQUEUED, holder.id)]


@pytest.mark.parametrize(
    ("outcome", "change"),
    [
        (Done(), Change.DONE),
        (Again(), Change.AGAIN),
        (Again(delay=HOUR), Change.AGAIN),
        (Wait(WaitReason.LIMIT), Change.WAITING),
        (Wait(WaitReason.SIGNAL, On("signal", "never")), Change.WAITING),
        (Wait(WaitReason.SIGNAL, On("signal", "there")), Change.AGAIN),
        (Wait(WaitReason.CHILDREN, children=1), Change.WAITING),
        (DEAD, Change.DEAD),
        (Cancelled(), Change.CANCELLED),
        (Held(1), Change.HELD),
    ],
)
async def test_each_outcome_is_reported(store, outcome, change):
    await store.records.put([Put("signal", "there", b"1")])
    [job] = await put_in(store, new())
    [lease] = await take(store)
    before = await now(store)

    await end(store, lease, outcome)

    assert await reported(store, before) == [(change, job)]


@pytest.mark.parametrize("outcome", [Again(), Wait(WaitReason.LIMIT)])
async def test_a_retry_that_became_a_cancel_is_reported_as_one(store, outcome):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.cancel([job])
    before = await now(store)

    await end(store, lease, outcome)

    assert await reported(store, before) == [(Change.CANCELLED, job)]


async def test_enqueued_effects_are_reported(store):
    [job] = await put_in(store, new())
    child = new()
    [lease] = await take(store)
    before = await now(store)

    await end(store, lease, Done(), Enqueue(child))

    assert sorted(await reported(store, before)) == sorted([(Change.DONE, job), (Change.ENQUEUED, child.id)])


async def test_leases_are_reported_in_their_order(store):
    jobs = await put_in(store, *(new(priority=priority) for priority in (3, 1, 2)))
    before = await now(store)

    await take(store)

    order = [jobs[1], jobs[2], jobs[0]]
    assert await reported(store, before) == [(Change.CLAIMED, job) for job in order]


async def test_losses_are_reported_with_what_became_of_the_jobs(store, clock):
    ready, off = await put_in(store, new(), new())
    await take(store)
    await store.jobs.cancel([off])
    clock.turn(HOUR)
    before = await now(store)

    await store.jobs.reap(10)

    changed = await reported(store, before)
    assert sorted(changed) == sorted([(Change.LOST, ready), (Change.LOST, off), (Change.CANCELLED, off)])


async def test_a_poisoned_job_is_reported_as_lost_and_dead(store, clock):
    [job] = await put_in(store, new())
    await run(store, Held(1))
    clock.turn(HOUR)
    before = await now(store)

    await store.jobs.reap(10, max_lost=1)

    assert sorted(await reported(store, before)) == sorted([(Change.LOST, job), (Change.DEAD, job)])


async def test_a_cancel_tells_those_that_ended(store):
    ready, later, running = await put_in(store, new(), new(delay=HOUR), new(priority=0))
    await take(store, 1)
    before = await now(store)

    await store.jobs.cancel([ready, running, new_id(), later])

    assert await reported(store, before) == [(Change.CANCELLED, ready), (Change.CANCELLED, later)]


async def test_a_replay_is_reported(store):
    [job, other] = await put_in(store, new(), new())
    await run(store, DEAD)
    before = await now(store)

    await store.jobs.replay([other, job])

    assert await reported(store, before) == [(Change.REPLAYED, job)]


async def test_a_promotion_is_reported(store):
    job, ready, other = await put_in(store, new(delay=HOUR), new(), new(priority=0))
    await run(store, Wait(WaitReason.INTERVENTION))
    before = await now(store)

    await store.jobs.promote([other, ready, job, other])

    assert await reported(store, before) == [(Change.PROMOTED, other), (Change.PROMOTED, job)]


async def test_a_release_is_reported_as_again(store):
    [job] = await put_in(store, new())
    await run(store, Wait(WaitReason.LIMIT))
    before = await now(store)

    await store.jobs.release(WaitReason.LIMIT)

    assert await reported(store, before) == [(Change.AGAIN, job)]


async def test_what_changes_no_job_is_not_reported(store, clock):
    [job, _] = await put_in(store, new(), new(delay=HOUR))
    lease = await run(store, Done())
    before = await now(store)

    await store.jobs.enqueue([new(id=job)])
    await end(store, lease, Done())
    await take(store)
    await store.jobs.exchange([])
    await store.jobs.reap(10)
    await store.jobs.cancel([job, new_id()])
    await store.jobs.replay([job])
    await store.jobs.promote([job])
    await store.jobs.release(WaitReason.LIMIT)
    await store.jobs.renew([lease], MINUTE)
    await store.jobs.watch([job], MINUTE)
    await store.queues.pause(["default"])
    await store.queues.resume(["default"])

    assert await changes(store, before) == []


async def test_a_note_and_a_request_to_stop_are_not_reported(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    before = await now(store)

    await store.jobs.note([(lease, b"1")])
    await store.jobs.cancel([job])

    assert await changes(store, before) == []


async def test_turns_of_a_lane_and_moments_that_come_are_not_reported(store, clock):
    [first, second] = await put_in(store, laned(), laned(delay=MINUTE))
    [lease] = await take(store)
    clock.turn(HOUR)
    await take(store)
    before = await now(store)

    await end(store, lease, Done())

    assert await reported(store, before) == [(Change.DONE, first)]
    assert [lease.id for lease in await take(store)] == [second]


async def test_the_release_of_a_parent_is_not_reported(store):
    parent = new(children=1)
    child = new(parent=parent.id)
    await store.jobs.enqueue([parent, child])
    before = await now(store)

    await store.jobs.cancel([child.id])

    assert await reported(store, before) == [(Change.CANCELLED, child.id)]


async def test_a_store_opened_without_events_tells_nothing(another):
    silent = await another(events=False)
    [job] = await put_in(silent, new())
    await run(silent, DEAD)

    await silent.jobs.replay([job])

    assert await changes(silent) == []
    assert await silent.streams.publish([]) == []


async def test_five_hundred_jobs_are_reported_in_one_event(store):
    jobs = [new() for _ in range(500)]

    await store.jobs.enqueue(jobs)

    assert await reported(store, 0) == [(Change.ENQUEUED, job.id) for job in jobs]


async def test_prune_leaves_the_newest_ten_thousand_events(store):
    for _ in range(101):
        await asyncio.gather(*(store.jobs.enqueue([new()]) for _ in range(100)))
    newest = await store.streams.read(LIFECYCLE, after=10_099)

    for _ in range(3):
        await store.jobs.prune(1000)

    [oldest, *_] = await store.streams.read(LIFECYCLE, limit=1)
    assert oldest.offset == 101
    assert await store.streams.read(LIFECYCLE, after=10_099) == newest


async def test_a_job_died_at_the_moment_of_the_event_that_says_so_and_so_did_its_last_failure_unless_it_was_taken_back_as_poison(
    store, clock
):
    [failed, poison] = await put_in(store, new(queue="fails"), new())
    clock.turn(7)
    await run(store, DEAD, queue="fails")
    [died] = await store.streams.read(LIFECYCLE, after=await now(store) - 1)
    clock.turn(7)
    await lose(store, clock, 1, max_lost=1)
    [taken] = await store.streams.read(LIFECYCLE, after=await now(store) - 1)

    first, second = await one(store, failed), await one(store, poison)
    assert (first.state, first.since, first.failures[-1].at) == (State.DEAD, died.at, died.at)
    assert (second.state, second.since, second.failures) == (State.DEAD, taken.at, ())
    assert [change for change, _ in unpack(taken.data) if change is Change.DEAD] == [Change.DEAD]
