"""Parents and children whose ends meet in one call."""

import pytest

from packhorse.model import limits
from packhorse.model.effect import Enqueue
from packhorse.model.job import State
from packhorse.model.lease import Settlement
from packhorse.model.reason import WaitReason
from tests.factories import DEAD, Done, Held, Wait, delivered, end, lose, new, one, put_in, state, states, take


async def running_family(store) -> list:
    """The leases of a parent and its child, both running."""
    [parent] = await put_in(store, new("parent"))
    [lease] = await take(store)
    await end(store, lease, Held(1), Enqueue(new("child", parent=parent)))
    return [lease, *await take(store)]


async def waiting_family(store, size: int) -> tuple[bytes, list[bytes]]:
    """A parent that waits for its children, and the children."""
    parent = new("parent", children=size)
    children = [new("child", parent=parent.id) for _ in range(size)]
    await store.jobs.enqueue([parent, *children])
    return parent.id, [child.id for child in children]


async def test_a_child_that_ends_before_its_parent_in_one_call_is_delivered(store):
    parent, child = await running_family(store)

    await store.jobs.exchange([Settlement(child, Done(b"1")), Settlement(parent, DEAD)])

    assert await delivered(store, parent.id, child.id) == b"done 1"
    assert (await one(store, parent.id)).delivered == 1


async def test_a_child_that_ends_after_its_parent_in_one_call_is_delivered(store):
    parent, child = await running_family(store)

    await store.jobs.exchange([Settlement(parent, DEAD), Settlement(child, Done(b"1"))])

    assert await delivered(store, parent.id, child.id) == b"done 1"
    assert (await one(store, parent.id)).delivered == 1


async def test_a_child_cancelled_before_its_parent_in_one_call_is_delivered(store):
    parent, [child] = await waiting_family(store, 1)

    await store.jobs.cancel([child, parent])

    assert await delivered(store, parent, child) == b"cancelled"
    assert (await one(store, parent)).delivered == 1
    assert await states(store, parent, child) == [State.CANCELLED, State.CANCELLED]


async def test_a_child_cancelled_after_its_parent_in_one_call_is_delivered(store):
    parent, [child] = await waiting_family(store, 1)

    await store.jobs.cancel([parent, child])

    assert await delivered(store, parent, child) == b"cancelled"
    assert (await one(store, parent)).delivered == 1
    assert await states(store, parent, child) == [State.CANCELLED, State.CANCELLED]


async def test_a_family_dropped_in_one_call_leaves_nothing(store):
    parent, children = await waiting_family(store, 2)

    assert await store.jobs.drop([children[0], parent, children[1]]) == [True, True, True]

    assert [await delivered(store, parent, child) for child in children] == [None, None]
    assert await states(store, parent, *children) == [None, None, None]


async def test_a_wait_for_a_child_that_ends_later_in_the_same_call_is_over(store):
    parent, child = await running_family(store)

    await store.jobs.exchange([
        Settlement(parent, Wait(WaitReason.CHILDREN, children=1)), Settlement(child, Done()),
    ])  # fmt: skip

    assert await state(store, parent.id) is State.READY


async def test_a_wait_for_a_child_that_ended_earlier_in_the_same_call_is_over(store):
    parent, child = await running_family(store)

    await store.jobs.exchange([
        Settlement(child, Done()), Settlement(parent, Wait(WaitReason.CHILDREN, children=1)),
    ])  # fmt: skip

    assert await state(store, parent.id) is State.READY


@pytest.mark.parametrize("verb", ["settle", "cancel", "drop", "reap"])
async def test_children_that_end_in_one_call_are_each_counted(store, clock, verb):
    parent, children = await waiting_family(store, 3)
    if verb == "settle":
        await store.jobs.exchange([Settlement(lease, Done()) for lease in await take(store)])
    elif verb == "reap":
        await lose(store, clock, 1, max_lost=1)
    else:
        await getattr(store.jobs, verb)(children)

    ready = await one(store, parent)
    assert (ready.state, ready.delivered) == (State.READY, 3)


async def test_several_families_end_in_one_call(store):
    families = [await waiting_family(store, 2) for _ in range(3)]

    leases = await take(store)
    await store.jobs.exchange([Settlement(lease, Done()) for lease in leases[:5]])

    assert await states(store, *(parent for parent, _ in families)) == [
        State.READY, State.READY, State.WAITING,
    ]  # fmt: skip


async def test_a_replayed_parent_counts_what_was_delivered_after_it_had_ended(store):
    parent, child = await running_family(store)
    await store.jobs.exchange([Settlement(parent, DEAD), Settlement(child, Done())])
    await store.jobs.replay([parent.id])
    [again] = await take(store)

    await end(store, again, Wait(WaitReason.CHILDREN, children=1))

    assert await state(store, parent.id) is State.READY


async def test_a_result_of_the_largest_size_reaches_the_parent(store):
    result = b'"' + b"x" * (limits.RESULT - 2) + b'"'
    parent, [child] = await waiting_family(store, 1)
    [lease] = await take(store)

    await end(store, lease, Done(result))

    assert await delivered(store, parent, child) == b"done " + result
    assert await state(store, parent) is State.READY
