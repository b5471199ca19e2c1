"""Jobs of a queue that are run together."""

import asyncio
from typing import Any

import pytest

from packhorse.engine.registry import Batching, Entry
from packhorse.model.job import State
from tests.engine.making import SECOND, Crossing, Gate, Name, Tasks, jobs, worker
from tests.making import one, put_in


class Batched(Tasks):
    """Tasks of which those of one queue are run together, whatever they are."""

    def __init__(self, call: Any, size: int = 5, wait: int = 100_000) -> None:
        super().__init__()
        self._entry = Entry(name="together", call=call, batching=Batching(size, wait))

    def find(self, task: str, queue: str = "default") -> Entry | None:
        return self._entry if queue == "batched" else super().find(task, queue)

    def batching(self, queue: str) -> Batching | None:
        return self._entry.batching if queue == "batched" else None


class Sizes:
    """Notes how many jobs came together."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def __call__(self, ctxs: Any) -> None:
        self.seen.append(len(ctxs))
        await asyncio.sleep(0)


async def test_full_batches_run_at_once_and_the_rest_after_a_while(live, telemetry, heard):
    sizes = Sizes()
    ids = await put_in(live, *jobs(12, queue="batched"))
    async with worker(live, Batched(sizes), telemetry, queues={"batched": 1}):
        await heard.until(Name.DONE, 12)

    assert sorted(sizes.seen) == [2, 5, 5]
    assert {(await one(live, each)).state for each in ids} == {State.DONE}


@pytest.mark.parametrize("order", [["empty", "batched"], ["batched", "empty"]], ids="+".join)
async def test_a_queue_of_batches_has_its_part_beside_an_empty_one_and_costs_few_exchanges(
    memory, telemetry, heard, order
):
    sizes, crossing = Sizes(), Crossing()
    await put_in(memory, *jobs(20, queue="batched"))
    async with worker(
        crossing.before(memory), Batched(sizes), telemetry, queues=dict.fromkeys(order, 1), concurrency=1
    ):
        await heard.until(Name.DONE, 20)

    assert sizes.seen == [5, 5, 5, 5]
    assert crossing.count("jobs.exchange") < 60


async def test_an_unfinished_batch_is_handed_back_uncharged_when_the_worker_stops(memory, telemetry, heard):
    sizes = Sizes()
    ids = await put_in(memory, *jobs(3, queue="batched"))
    async with worker(memory, Batched(sizes, wait=600 * SECOND), telemetry, queues={"batched": 1}):
        async with asyncio.timeout(10):
            while {(await one(memory, each)).state for each in ids} != {State.RUNNING}:
                await asyncio.sleep(0.001)

    found = [await one(memory, each) for each in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.READY, 0)}
    assert sizes.seen == []


async def test_a_batch_that_is_stopped_is_handed_back_whole(memory, telemetry, heard):
    gate = Gate()
    ids = await put_in(memory, *jobs(5, queue="batched"))
    async with worker(memory, Batched(lambda ctxs: gate()), telemetry, queues={"batched": 1}, grace=50_000):
        await heard.until(Name.STARTED, 5)

    found = [await one(memory, each) for each in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.READY, 0)}
