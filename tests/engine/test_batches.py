"""Jobs of a queue that are run together."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from packhorse.engine.context import current, current_or_none
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Batching, Entry
from packhorse.errors import NotInAJob
from packhorse.model.job import State
from tests.engine.making import SECOND, Crossing, Gate, Name, Tasks, jobs, lease_ahead, worker
from tests.making import one, put_in


class Batched(Tasks):
    """Tasks of which those of one queue are run together, whatever they are."""

    def __init__(self, call: Any, size: int = 5, wait: int = 100_000, **policy: Any) -> None:
        super().__init__()
        self._entry = Entry(name="together", call=call, batching=Batching(size, wait), policy=Policy(**policy))

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


@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
async def test_a_job_that_is_cancelled_while_its_batch_waits_for_a_slot_leaves_the_others_to_run(
    live, telemetry, heard, place
):
    gate, ran = Gate(), []

    async def call(ctxs: Any) -> None:
        ran.append([ctx.lease.id for ctx in ctxs])
        await gate()

    before, batch = jobs(3, queue="batched"), jobs(3, queue="batched")
    tasks = Batched(call, size=3, wait=10 * SECOND, attempts=1)
    async with worker(live, tasks, telemetry, queues={"batched": 1}, concurrency=1, lease=600_000) as working:
        lease_ahead(working)
        await put_in(live, *before)
        await heard.until(Name.STARTED, 3)
        lease_ahead(working)
        ids = await put_in(live, *batch)
        async with asyncio.timeout(10):
            while {(await one(live, each)).state for each in ids} != {State.RUNNING}:
                await asyncio.sleep(0.001)
        cancelled = ids.pop(place)
        await live.jobs.cancel([cancelled])
        await heard.until(Name.CANCELLED)
        gate.open()
        await heard.until(Name.DONE, 5)

    found = [await one(live, each) for each in ids]
    assert {(each.state, each.attempt, each.failures) for each in found} == {(State.DONE, 1, ())}
    assert ran[-1] == ids


@pytest.mark.parametrize("settled", [False, True], ids=["cancelled", "done"])
async def test_a_batch_is_timed_out_also_when_its_first_job_has_its_verdict(memory, telemetry, heard, settled):
    ended: list[int] = []

    async def call(ctxs: Any) -> None:
        if settled:
            ctxs[0].conclude(None)
        else:
            await memory.jobs.cancel([ctxs[0].lease.id])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(len(ctxs))
            raise

    ids = await put_in(memory, *jobs(2, queue="batched"))
    tasks = Batched(call, size=2, attempts=1, timeout=600_000)
    async with worker(memory, tasks, telemetry, queues={"batched": 1}, lease=300_000):
        await heard.until(Name.DEAD)

    assert ended == [2]
    assert (await one(memory, ids[0])).state is (State.DONE if settled else State.CANCELLED)
    assert (await one(memory, ids[1])).failures[-1].type == "TimeoutError"


async def test_in_a_batch_there_is_no_current_job(memory, telemetry, heard):
    seen: list[object] = []

    async def call(ctxs: Any) -> None:
        seen.append(current_or_none())
        with pytest.raises(NotInAJob, match="Several jobs"):
            current()

    await put_in(memory, *jobs(2, queue="batched"))
    async with worker(memory, Batched(call, size=2), telemetry, queues={"batched": 1}):
        await heard.until(Name.DONE, 2)

    assert seen == [None]


async def test_middleware_that_swallows_an_error_does_not_keep_a_batch_from_failing(memory, telemetry, heard):
    async def call(ctxs: Any) -> None:
        raise KeyError("batch")

    ids = await put_in(memory, *jobs(2, queue="batched"))
    more = {"middleware": [lambda ctx: suppress(Exception)]}
    async with worker(memory, Batched(call, size=2, attempts=1), telemetry, more=more, queues={"batched": 1}):
        await heard.until(Name.DEAD, 2)

    assert {(await one(memory, each)).failures[-1].type for each in ids} == {"KeyError"}
