"""The last job of a plan knows the jobs before it: their ids come from its own id, whoever reads it."""

import os

import pytest

from packhorse import App, JobNotFound, JobState, chain, chord, group
from packhorse.model.ids import child_ids, chosen, chosen_id, new_id, parse_id
from tests.features.conftest import Make
from tests.features.factories import run

PARTS = 10_000 if os.environ.get("PACKHORSE_TEST_LONG") else 1_000
DONE, READY, WAITING, UNKNOWN = JobState.DONE, JobState.READY, JobState.WAITING, JobState.UNKNOWN


class Sums:
    """Tasks to make plans of."""

    def __init__(self, app: App) -> None:
        @app.task(name="add", attempts=1)
        async def add(a: int, b: int = 1) -> int:
            if a < 0:
                raise ValueError("less than nothing")
            return a + b

        @app.task(name="total", attempts=1)
        async def total(parts: list[int]) -> int:
            return sum(parts)

        @app.task(name="spread", attempts=1)
        async def spread(number: int) -> list[int]:
            return [number]

        self.add, self.total, self.spread = add, total, spread


@pytest.fixture
def sums(app: App) -> Sums:
    return Sums(app)


async def children(app: App, id: str) -> list[tuple[JobState, object]]:
    """The state and the arguments of each child, read as another process would."""
    seen = [child async for child in app.job(id).children()]
    return [(child.state, None if child.job is None else (await app.job(child.id).info()).data["a"]) for child in seen]


async def test_any_process_lists_the_parts_of_a_group_with_their_states(app: App, make: Make, clock, sums):
    job = await chord(
        group(sums.add.call(1), sums.add.call(-1), sums.add.call(3), on_failure="skip"), sums.total
    ).enqueue()
    other = make(clock=clock)

    assert await children(other, job.id) == [(READY, 1), (READY, -1), (READY, 3)]
    await run(app)
    assert await children(other, job.id) == [(DONE, 1), (JobState.DEAD, -1), (DONE, 3)]
    assert await job.result(1) == 6


async def test_a_link_of_a_chain_has_the_link_before_it_as_its_child(memory: App):
    sums = Sums(memory)
    job = await chain(sums.add.call(1), sums.add, sums.add).enqueue()

    [second] = (await job.info()).children
    [first] = (await memory.job(second).info()).children
    assert (await memory.job(first).info()).children == ()
    await run(memory)
    assert [await memory.job(one).result(1) for one in (first, second, job.id)] == [2, 3, 4]


async def test_a_group_behind_a_task_has_the_task_and_its_own_parts_as_children(memory: App):
    sums = Sums(memory)
    job = await chain(sums.add.call(1), group(sums.add, sums.add.using(priority=1))).enqueue()

    assert [child.state async for child in job.children()] == [READY, UNKNOWN, UNKNOWN]
    await run(memory)
    assert [child.state async for child in job.children()] == [DONE, DONE, DONE]
    assert [await memory.job(child).result(1) for child in (await job.info()).children] == [2, 3, 3]


async def test_the_parts_of_a_large_group_are_listed_before_and_after_they_are_enqueued(app: App, sums):
    job = await chord(group(*(sums.add.call(number) for number in range(PARTS))), sums.total).enqueue()

    assert {child.state async for child in job.children()} == {UNKNOWN}
    await run(app, concurrency=100)
    seen = [child async for child in job.children()]
    assert [child.state for child in seen] == [DONE] * PARTS
    assert await job.result(1) == sum(range(PARTS)) + PARTS
    for number in (0, 399, 400, PARTS - 1):
        assert await app.job(seen[number].id).result(1) == number + 1


async def test_a_large_group_behind_a_task_lists_its_parts_too(memory: App):
    sums = Sums(memory)
    job = await chain(sums.add.call(1), group(*[sums.add] * 450)).enqueue()
    await run(memory, concurrency=100)

    seen = [child.state async for child in job.children()]
    assert seen == [DONE] * 451
    assert await job.result(1) == [3] * 450


async def test_a_child_that_was_removed_is_unknown_and_a_plan_that_was_removed_is_not_found(app: App, sums):
    job = await chord(group(sums.add.call(1), sums.add.call(2)), sums.total).enqueue()
    first, second = (await job.info()).children
    store = await app.store()
    await store.jobs.drop([parse_id(first)])

    assert [(child.id, child.state) async for child in job.children()] == [(first, UNKNOWN), (second, READY)]
    await store.jobs.drop([parse_id(job.id)])
    with pytest.raises(JobNotFound):
        await anext(job.children())


async def test_a_job_without_children_has_none(memory: App):
    job = await Sums(memory).add.enqueue(1)
    assert (await job.info()).children == ()
    assert [child async for child in job.children()] == []


def test_ids_of_children_are_in_order_distinct_and_of_the_kind_of_their_parent():
    for parent in (new_id(), chosen_id("shop", "plan-1")):
        ids = child_ids(parent, 1_000)
        assert sorted(set(ids)) == ids
        assert child_ids(parent, 10) == ids[:10]
        assert {(one[6] >> 4, one[8] >> 6) for one in ids} == {(parent[6] >> 4, 2)}
        assert {chosen(one) for one in ids} == {chosen(parent)}
        assert {one[:6] for one in ids} == {parent[:6]}
    families = [one for parent in [new_id() for _ in range(1_000)] for one in child_ids(parent, 2)]
    assert len(set(families)) == 2_000
