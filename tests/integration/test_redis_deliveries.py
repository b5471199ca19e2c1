"""What children left for their parents is removed some at a time: a script blocks the server."""

from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import pytest

from packhorse.errors import OutcomeUnknown, StoreUnavailable
from packhorse.model.effect import Put
from packhorse.model.ids import new_id
from packhorse.model.job import Retention
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.contract import Store
from tests.conformance.invariants import check
from tests.factories import HOUR, Done, end, new, take
from tests.integration.keyspaces import KINDS, NONE, client_of, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

PARENTS, EACH, AT_MOST = 30, 400, 5_400  # a call may go over its bound by what one parent has
Left = Callable[[], Any]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(url: str, clock: Any) -> AsyncIterator[Store]:
    async with opened(url, clock=clock) as made:
        yield made


@pytest.fixture
async def left(url: str) -> AsyncIterator[Left]:
    """Tells how many deliveries are kept."""
    async with client_of(url) as client:

        async def count() -> int:
            return int(await client.zcard(f"{{packhorse:packhorse}}:names:{DELIVERED}"))

        yield count


async def families(store: Store) -> list[bytes]:
    """Parents of many children that have ended."""
    parents = [new(queue="parents", children=1) for _ in range(PARENTS)]
    await store.jobs.enqueue([*parents, *(new(parent=parent.id) for parent in parents)])
    for lease in await take(store, PARENTS):
        await end(store, lease, Done(keep=Retention(0, 0)))
    for parent in parents:
        await store.records.put([Put(DELIVERED, delivery_key(parent.id, new_id()), b"done 1") for _ in range(1, EACH)])
    return [parent.id for parent in parents]


async def test_parents_are_dropped_in_several_scripts_and_each_is_answered(store, left, monkeypatch):
    ids = await families(store)
    stranger = new_id()
    counts = [await left()]
    assert counts == [PARENTS * EACH]
    run = store._keyspace.run

    async def counted(*args: Any, **named: Any) -> Any:
        answer = await run(*args, **named)
        counts.append(await left())
        return answer

    monkeypatch.setattr(store._keyspace, "run", counted)
    answers = await store.jobs.drop([*ids, stranger, ids[0]])

    assert answers == [True] * PARENTS + [False, False]
    assert counts[-1] == 0
    assert max(before - after for before, after in pairwise(counts)) <= AT_MOST
    assert await store.jobs.get(ids) == [None] * PARENTS
    await check(store)


async def test_a_drop_that_breaks_off_after_its_first_script_is_unknown(store, monkeypatch):
    ids = await families(store)
    run, calls = store._keyspace.run, []

    async def breaking(verb: str, **named: Any) -> Any:
        calls.append(verb)
        if len(calls) == 2:
            raise StoreUnavailable("gone")
        return await run(verb, **named)

    monkeypatch.setattr(store._keyspace, "run", breaking)
    with pytest.raises(OutcomeUnknown, match="again"):
        await store.jobs.drop(ids)

    assert set(await store.jobs.drop(ids)) == {True, False}
    assert await store.jobs.get(ids) == [None] * PARENTS


async def test_parents_are_pruned_in_several_calls(store, left, clock):
    ids = await families(store)
    for lease in await take(store, PARENTS, "parents"):
        await end(store, lease, Done(keep=Retention(0, 0)))
    clock.turn(HOUR)
    counts, more = [await left()], True
    while more:
        more = (await store.jobs.prune(1000)).more
        counts.append(await left())

    assert counts[-1] == 0
    assert max(before - after for before, after in pairwise(counts)) <= AT_MOST
    assert await store.jobs.get(ids) == [None] * PARENTS
    await check(store)
