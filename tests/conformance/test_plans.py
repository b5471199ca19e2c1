"""Parents and children: what the end of a child leaves for its parent."""

import asyncio

import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import Retention, State
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.reason import WaitReason
from packhorse.model.record import DELIVERED
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
    ask,
    delivered,
    end,
    lose,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

FAMILY = WaitReason.CHILDREN


async def family(store, size: int = 1, **options) -> tuple[bytes, list[bytes]]:
    """A parent that waits for its children, and the children."""
    parent = new("parent", children=size, **options)
    children = [new("child", parent=parent.id) for _ in range(size)]
    await store.jobs.enqueue([parent, *children])
    return parent.id, [child.id for child in children]


async def test_a_job_with_children_waits_until_that_many_have_ended(store):
    parent, _ = await family(store, 2)
    await run(store, Done())
    waiting = await one(store, parent)
    assert (waiting.state, waiting.reason) == (State.WAITING, FAMILY)
    assert (waiting.children, waiting.delivered) == (2, 1)

    await run(store, Done())

    assert await state(store, parent) is State.READY


async def test_the_end_of_a_child_is_delivered_to_its_parent_and_counted_once(store):
    parent, [first, second] = await family(store, 2)

    lease = await run(store, Done(b'{"n": 1}'))
    await end(store, lease, Done(b'{"n": 1}'))

    assert await delivered(store, parent, first) == b'done {"n": 1}'
    assert await delivered(store, parent, second) is None
    assert (await one(store, parent)).delivered == 1


async def test_the_end_of_the_last_child_makes_the_parent_ready(store, clock):
    parent, _ = await family(store, 3)
    leases = await take(store)
    await end(store, leases[2], Done())
    await end(store, leases[0], DEAD)
    assert await state(store, parent) is State.WAITING
    clock.turn(SECOND)

    await end(store, leases[1], Cancelled())

    ready = await one(store, parent)
    assert (ready.state, ready.since, ready.reason, ready.attempt) == (State.READY, clock.now(), None, 0)


async def test_a_parent_is_leased_in_the_call_that_ends_its_last_child(store):
    parent, _ = await family(store, 2)
    leases = await take(store)

    answer = await store.jobs.exchange([Settlement(lease, Done()) for lease in leases], ask())

    assert [lease.id for lease in answer.leases] == [parent]


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Done(), b"done"),
        (Done(b""), b"done "),
        (Done(b"null"), b"done null"),
        (DEAD, b"dead"),
        (Cancelled(), b"cancelled"),
    ],
)
async def test_every_end_by_settlement_is_delivered(store, outcome, word):
    parent, [child] = await family(store)

    await run(store, outcome)

    assert await delivered(store, parent, child) == word
    assert await state(store, parent) is State.READY


async def test_a_cancelled_child_is_delivered(store):
    parent, [child] = await family(store)

    await store.jobs.cancel([child])

    assert await delivered(store, parent, child) == b"cancelled"
    assert await state(store, parent) is State.READY


async def test_a_dropped_child_is_delivered(store):
    parent, [child] = await family(store)

    await store.jobs.drop([child])

    assert await delivered(store, parent, child) == b"dropped"
    assert await state(store, parent) is State.READY


async def test_a_poisoned_child_is_delivered(store, clock):
    parent, [child] = await family(store)

    await lose(store, clock, 1, max_lost=1)

    assert await delivered(store, parent, child) == b"dead"
    assert await state(store, parent) is State.READY


async def test_a_child_cancelled_when_its_lease_is_taken_back_is_delivered(store, clock):
    parent, [child] = await family(store)
    [lease] = await take(store)
    await store.jobs.cancel([child])
    clock.to(lease.until + 1)

    await store.jobs.reap(10)

    assert await delivered(store, parent, child) == b"cancelled"
    assert await state(store, parent) is State.READY


async def test_an_ended_child_that_is_dropped_is_not_delivered_again(store):
    parent, [child, _] = await family(store, 2)
    await run(store, Done(b"1"))

    await store.jobs.drop([child])

    assert await delivered(store, parent, child) == b"done 1"
    assert (await one(store, parent)).delivered == 1


@pytest.mark.parametrize("outcome", [Again(), Again(delay=HOUR), Wait(WaitReason.INTERVENTION), Held(1)])
async def test_what_is_no_end_is_not_delivered(store, outcome):
    parent, [child] = await family(store)

    await run(store, outcome)

    assert await delivered(store, parent, child) is None
    assert await state(store, parent) is State.WAITING


async def test_more_children_than_expected_are_delivered_and_counted(store):
    parent = new("parent", children=1, priority=99)
    children = [new("child", parent=parent.id) for _ in range(3)]
    await store.jobs.enqueue([parent, *children])

    for _ in children:
        await run(store, Done(b"1"))

    assert [await delivered(store, parent.id, child.id) for child in children] == [b"done 1"] * 3
    counted = await one(store, parent.id)
    assert (counted.state, counted.delivered) == (State.READY, 3)


async def test_a_parent_due_later_is_scheduled_when_its_children_have_ended(store, clock):
    parent, _ = await family(store, delay=HOUR)
    assert await state(store, parent) is State.WAITING
    due = clock.now() + HOUR
    clock.turn(MINUTE)

    await run(store, Done())

    later = await one(store, parent)
    assert (later.state, later.since) == (State.SCHEDULED, due)


async def test_a_parent_whose_moment_came_while_it_waited_is_ready_at_the_end_of_its_children(store, clock):
    parent, _ = await family(store, delay=MINUTE)
    clock.turn(HOUR)
    assert await state(store, parent) is State.WAITING

    await run(store, Done())

    ready = await one(store, parent)
    assert (ready.state, ready.since) == (State.READY, clock.now())


async def test_a_parent_that_spreads_its_children_waits_for_them(store):
    [parent] = await put_in(store, new("parent"))
    children = [new("child", parent=parent) for _ in range(3)]

    await run(store, Wait(FAMILY, children=3, detail="three"), *(Enqueue(child) for child in children))

    waiting = await one(store, parent)
    assert (waiting.state, waiting.reason, waiting.children) == (State.WAITING, FAMILY, 3)
    assert (waiting.delivered, waiting.detail, waiting.attempt) == (0, "three", 0)
    for _ in children:
        assert await state(store, parent) is State.WAITING
        await run(store, Done())
    assert await state(store, parent) is State.READY


async def test_a_parent_that_holds_while_it_spreads_counts_children_that_end_meanwhile(store):
    [parent] = await put_in(store, new("parent"))
    [lease] = await take(store)
    for step in (1, 2):
        await end(store, lease, Held(step), *(Enqueue(new("child", parent=parent)) for _ in range(2)))
    for _ in range(3):
        await run(store, Done())
    assert (await one(store, parent)).delivered == 3

    await end(store, lease, Wait(FAMILY, children=4))
    assert await state(store, parent) is State.WAITING
    await run(store, Done())

    assert await state(store, parent) is State.READY


async def test_a_wait_for_children_that_have_all_ended_makes_the_parent_ready(store):
    [parent] = await put_in(store, new("parent"))
    [lease] = await take(store)
    await end(store, lease, Held(1), Enqueue(new("child", parent=parent)))
    await run(store, Done())

    await end(store, lease, Wait(FAMILY, children=1))

    ready = await one(store, parent)
    assert (ready.state, ready.reason, ready.attempt) == (State.READY, None, 0)


async def test_a_second_wait_counts_the_children_of_the_first(store):
    [parent] = await put_in(store, new("parent"))
    await run(store, Wait(FAMILY, children=1), Enqueue(new("child", parent=parent)))
    await run(store, Done())

    await run(store, Wait(FAMILY, children=2), Enqueue(new("child", parent=parent)))

    assert await state(store, parent) is State.WAITING
    await run(store, Done())
    assert await state(store, parent) is State.READY


async def test_a_parent_that_has_ended_is_notified_of_its_children_as_long_as_it_is_kept(store, clock):
    [parent] = await put_in(store, new("parent"))
    first, second = new("child", parent=parent), new("child", parent=parent)
    await run(store, Done(keep=Retention(0, 0)), Enqueue(first), Enqueue(second))

    await run(store, Done(b"1"))

    assert await delivered(store, parent, first.id) == b"done 1"
    reported = await one(store, parent)
    assert (reported.state, reported.delivered) == (State.DONE, 1)
    clock.turn(SECOND)
    await store.jobs.prune(10)
    await run(store, Done(b"2"))
    assert (await store.records.find(DELIVERED)).items == ()


async def test_a_child_of_nobody_ends_like_any_other(store):
    nobody = new_id()
    [child] = await put_in(store, new(parent=nobody))

    await run(store, Done(b"1"))

    assert await state(store, child) is State.DONE
    assert await delivered(store, nobody, child) is None


async def test_a_parent_enqueued_after_its_children_waits_for_those_that_are_left(store):
    parent = new("parent", children=1, priority=99)
    first, second = new(parent=parent.id), new(parent=parent.id)
    await store.jobs.enqueue([first, second])
    await run(store, Done())

    await store.jobs.enqueue([parent])

    assert await state(store, parent.id) is State.WAITING
    await run(store, Done())
    assert await state(store, parent.id) is State.READY


async def test_a_cancelled_parent_leaves_its_children_alone(store):
    parent, [child] = await family(store)

    await store.jobs.cancel([parent])

    assert await states(store, parent, child) == [State.CANCELLED, State.READY]
    await run(store, Done())
    assert await state(store, parent) is State.CANCELLED


async def test_what_was_delivered_to_a_dropped_parent_goes_with_it(store):
    parent, [first, second] = await family(store, 2)
    await run(store, Done(b"1"))

    await store.jobs.drop([parent])

    assert await delivered(store, parent, first) is None
    await run(store, Done(b"2"))
    assert await delivered(store, parent, second) is None
    assert (await store.records.find(DELIVERED)).items == ()


async def test_a_parent_dropped_and_enqueued_again_counts_anew(store):
    parent, _ = await family(store, 2)
    await run(store, Done())
    await store.jobs.drop([parent])

    await store.jobs.enqueue([new("parent", id=parent, children=1, priority=99)])

    fresh = await one(store, parent)
    assert (fresh.state, fresh.delivered) == (State.WAITING, 0)
    await run(store, Done())
    assert await state(store, parent) is State.READY


async def test_families_of_families_end_from_the_leaves_up(store):
    top = new("top", children=1)
    middle = new("middle", parent=top.id, children=1)
    await store.jobs.enqueue([top, middle, new("leaf", parent=middle.id)])

    tasks = [(await run(store, Done())).task for _ in range(3)]

    assert tasks == ["leaf", "middle", "top"]


async def test_children_that_end_at_once_release_their_parent_once(store, second):
    parent, children = await family(store, 20)
    leases = await take(store, 20)

    verdicts = await asyncio.gather(
        *(end(place, lease, Done()) for place, lease in zip((store, second) * 10, leases, strict=True))
    )

    assert verdicts == [Verdict.WRITTEN] * len(children)
    ready = await one(store, parent)
    assert (ready.state, ready.delivered) == (State.READY, 20)
