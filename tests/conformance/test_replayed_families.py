"""Parents and children that are run again."""

import itertools

import pytest

from packhorse.model.job import State
from packhorse.model.record import DELIVERED, delivery_key
from tests.factories import DEAD, HOUR, SECOND, Done, delivered, end, new, one, put_in, run, state, states, take


async def family(store, size: int = 1, **options) -> tuple[bytes, list[bytes]]:
    """A parent that waits for its children, and the children."""
    parent = new("parent", children=size, **options)
    children = [new("child", parent=parent.id) for _ in range(size)]
    await store.jobs.enqueue([parent, *children])
    return parent.id, [child.id for child in children]


async def test_a_replayed_job_takes_back_what_it_has_left_for_its_parent(store, clock):
    parent, [child, other] = await family(store, 2)
    await run(store, DEAD)
    [before] = await store.records.get(DELIVERED, [delivery_key(parent, child)])
    await store.jobs.replay([child])
    assert await delivered(store, parent, child) is None
    assert (await one(store, parent)).delivered == 0

    await run(store, Done(b"2"))
    assert await state(store, parent) is State.WAITING
    clock.turn(SECOND)
    await run(store, Done(b"1"))

    [after] = await store.records.get(DELIVERED, [delivery_key(parent, child)])
    assert (after.value, after.version > before.version) == (b"done 1", True)
    assert await delivered(store, parent, other) == b"done 2"
    ready = await one(store, parent)
    assert (ready.state, ready.delivered) == (State.READY, 2)


async def test_a_job_replayed_twice_is_counted_once(store):
    parent, [child] = await family(store)
    for _ in range(2):
        await run(store, DEAD)
        await store.jobs.replay([child])
    assert (await one(store, parent)).delivered == 0

    await run(store, Done(b"1"), queue="default")

    assert (await one(store, parent)).delivered == 1


async def test_a_replayed_child_is_asked_to_a_parent_that_died_of_it(store):
    parent, [child] = await family(store)
    await run(store, DEAD)
    await run(store, DEAD)
    await store.jobs.replay([child])

    await run(store, Done(b"1"))

    assert await delivered(store, parent, child) == b"done 1"
    await store.jobs.replay([parent])
    assert await states(store, parent, child) == [State.READY, State.DONE]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_a_replayed_parent_waits_for_children_whose_ends_are_not_delivered_also_for_those_replayed_in_the_same_call(
    store, order
):
    parent, children = await family(store, 2)
    ids = [parent, *children]
    await store.jobs.cancel(ids)

    assert await store.jobs.replay([ids[place] for place in order]) == [True] * 3

    waiting = await one(store, parent)
    assert (waiting.state, waiting.children, waiting.delivered) == (State.WAITING, 2, 0)
    for _ in children:
        assert await state(store, parent) is State.WAITING
        await run(store, Done(b"1"))
    assert await state(store, parent) is State.READY


async def test_a_replayed_parent_waits_for_a_child_that_never_ended(store):
    parent, children = await family(store, 2)
    await store.jobs.cancel([parent])
    await run(store, Done())

    await store.jobs.replay([parent])

    waiting = await one(store, parent)
    assert (waiting.state, waiting.delivered, waiting.attempt) == (State.WAITING, 1, 0)
    await run(store, Done())
    assert await states(store, parent, *children) == [State.READY, State.DONE, State.DONE]


async def test_a_replayed_parent_that_waits_asks_its_lane_when_its_children_have_ended(store):
    parent, _ = await family(store, lane="a")
    [first] = await put_in(store, new(lane="a", priority=0))
    await store.jobs.cancel([parent])
    await store.jobs.replay([parent])

    leases = await take(store)
    assert [lease.task for lease in leases] == ["work", "child"]
    await end(store, leases[1], Done())

    assert await states(store, parent, first) == [State.WAITING, State.RUNNING]
    await end(store, leases[0], Done())
    assert await state(store, parent) is State.READY


async def test_a_replayed_parent_that_never_ran_keeps_its_moment_while_it_waits(store, clock):
    parent, _ = await family(store, delay=HOUR)
    due = clock.now() + HOUR
    await store.jobs.cancel([parent])
    await store.jobs.replay([parent])

    await run(store, Done())

    later = await one(store, parent)
    assert (later.state, later.since) == (State.SCHEDULED, due)


async def test_a_child_that_is_replayed_after_its_parent_was_dropped_ends_like_any_other(store):
    parent, [child] = await family(store)
    await run(store, DEAD)
    await store.jobs.drop([parent])
    await store.jobs.replay([child])

    await run(store, Done())

    assert await states(store, parent, child) == [None, State.DONE]
    assert (await store.records.find(DELIVERED)).items == ()
