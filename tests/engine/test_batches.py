"""Jobs of a queue that are run together."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from packhorse.engine.attempt import Attempt, current_attempt_or_none
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.context import Context, current
from packhorse.engine.judge import Cause
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Batching, Entry
from packhorse.errors import NotInAJob
from packhorse.model.clock import SYSTEM
from packhorse.model.codec import Codec
from packhorse.model.ids import id_text
from packhorse.model.job import State
from packhorse.model.outcome import Again, Cancelled, Done
from packhorse.model.randomness import SYSTEM_RANDOMNESS
from tests.engine.factories import SECOND, Crossing, EventName, Gate, Tasks, jobs, lease_ahead, worker
from tests.factories import one, put_in, take


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


async def test_full_batches_run_at_once_and_the_rest_after_a_while(live, telemetry, recorder):
    sizes = Sizes()
    ids = await put_in(live, *jobs(12, queue="batched"))
    async with worker(live, Batched(sizes), telemetry, queues={"batched": 1}):
        await recorder.until(EventName.DONE, 12)

    assert sorted(sizes.seen) == [2, 5, 5]
    assert {(await one(live, each)).state for each in ids} == {State.DONE}


@pytest.mark.parametrize("order", [["empty", "batched"], ["batched", "empty"]], ids="+".join)
async def test_a_queue_of_batches_has_its_part_beside_an_empty_one_and_costs_few_exchanges(
    memory, telemetry, recorder, order
):
    sizes, crossing = Sizes(), Crossing()
    await put_in(memory, *jobs(20, queue="batched"))
    async with worker(
        crossing.before(memory), Batched(sizes), telemetry, queues=dict.fromkeys(order, 1), concurrency=1
    ):
        await recorder.until(EventName.DONE, 20)

    assert sizes.seen == [5, 5, 5, 5]
    assert crossing.count("jobs.exchange") < 60


async def test_an_unfinished_batch_is_handed_back_uncharged_when_the_worker_stops(memory, telemetry, recorder):
    sizes = Sizes()
    ids = await put_in(memory, *jobs(3, queue="batched"))
    async with worker(memory, Batched(sizes, wait=600 * SECOND), telemetry, queues={"batched": 1}):
        async with asyncio.timeout(10):
            while {(await one(memory, each)).state for each in ids} != {State.RUNNING}:
                await asyncio.sleep(0.001)

    found = [await one(memory, each) for each in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.READY, 0)}
    assert sizes.seen == []


async def test_a_batch_that_is_stopped_is_handed_back_whole(memory, telemetry, recorder):
    gate = Gate()
    ids = await put_in(memory, *jobs(5, queue="batched"))
    async with worker(memory, Batched(lambda ctxs: gate()), telemetry, queues={"batched": 1}, grace=50_000):
        await recorder.until(EventName.STARTED, 5)

    found = [await one(memory, each) for each in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.READY, 0)}


@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
async def test_a_job_that_is_cancelled_while_its_batch_waits_for_a_slot_leaves_the_others_to_run(
    live, telemetry, recorder, place
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
        await recorder.until(EventName.STARTED, 3)
        lease_ahead(working)
        ids = await put_in(live, *batch)
        async with asyncio.timeout(10):
            while {(await one(live, each)).state for each in ids} != {State.RUNNING}:
                await asyncio.sleep(0.001)
        cancelled = ids.pop(place)
        await live.jobs.cancel([cancelled])
        await recorder.until(EventName.CANCELLED)
        gate.open()
        await recorder.until(EventName.DONE, 5)

    found = [await one(live, each) for each in ids]
    assert {(each.state, each.attempt, each.failures) for each in found} == {(State.DONE, 1, ())}
    assert ran[-1] == ids


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("cause", [Cause.CANCEL, Cause.SHUTDOWN])
async def test_a_job_that_is_stopped_as_its_batch_begins_is_not_done(memory, telemetry, recorder, cause, count):
    ran: list[bytes] = []

    async def call(ctxs: Any) -> None:
        ran.extend(ctx.lease.id for ctx in ctxs)

    def stop(name: EventName, _fields: object) -> None:
        for each in ids[:count] if name is EventName.STARTED else ():
            if (ctx := working._slots.held.get(each)) is not None and ctx.lease.attempt == 1:
                working._slots.stop(ctx, cause)

    telemetry.on(stop)
    ids = await put_in(memory, *jobs(2, queue="batched"))
    ended = EventName.CANCELLED if cause is Cause.CANCEL else EventName.HANDED_BACK
    stopped = count if cause is Cause.CANCEL else 2  # the end of the worker is the end of the whole batch
    async with worker(memory, Batched(call, size=2), telemetry, queues={"batched": 1}) as working:
        await recorder.until(ended, stopped)
        await asyncio.sleep(0)

    assert ran == ids[stopped:]
    expected = State.CANCELLED if cause is Cause.CANCEL else State.READY
    assert [(await one(memory, each)).state for each in ids] == [expected] * stopped + [State.DONE] * (2 - stopped)


@pytest.mark.parametrize("settled", [False, True], ids=["cancelled", "done"])
async def test_a_batch_is_timed_out_also_when_its_first_job_has_its_verdict(memory, telemetry, recorder, settled):
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
        await recorder.until(EventName.DEAD)

    assert ended == [2]
    assert (await one(memory, ids[0])).state is (State.DONE if settled else State.CANCELLED)
    assert (await one(memory, ids[1])).failures[-1].type == "TimeoutError"


async def test_in_a_batch_there_is_no_current_job(memory, telemetry, recorder):
    seen: list[object] = []

    async def call(ctxs: Any) -> None:
        seen.append(current_attempt_or_none())
        with pytest.raises(NotInAJob, match="Several jobs"):
            current()

    await put_in(memory, *jobs(2, queue="batched"))
    async with worker(memory, Batched(call, size=2), telemetry, queues={"batched": 1}):
        await recorder.until(EventName.DONE, 2)

    assert seen == [None]


async def test_middleware_runs_once_around_a_batch(memory, telemetry, recorder):
    seen: list[str] = []

    async def call(ctxs: Any) -> None:
        assert seen == [id_text(ids[0])]

    ids = await put_in(memory, *jobs(2, queue="batched"))

    @contextmanager
    def around(ctx: Context) -> Iterator[None]:
        seen.append(ctx.job_id)
        yield

    more = {"middleware": [around]}
    async with worker(memory, Batched(call, size=2, attempts=1), telemetry, more=more, queues={"batched": 1}):
        await recorder.until(EventName.DONE, 2)

    assert len(seen) == 1


async def test_middleware_that_swallows_an_error_does_not_keep_a_batch_from_failing(memory, telemetry, recorder):
    async def call(ctxs: Any) -> None:
        raise KeyError("batch")

    ids = await put_in(memory, *jobs(2, queue="batched"))
    more = {"middleware": [lambda ctx: suppress(Exception)]}
    async with worker(memory, Batched(call, size=2, attempts=1), telemetry, more=more, queues={"batched": 1}):
        await recorder.until(EventName.DEAD, 2)

    assert {(await one(memory, each)).failures[-1].type for each in ids} == {"KeyError"}


async def test_jobs_that_are_to_stop_before_their_batch_begins_are_not_done_with_it(memory):
    ran: list[int] = []

    async def call(ctxs: Any) -> None:
        ran.append(len(ctxs))

    await put_in(memory, *jobs(3, queue="batched"))
    entry = Batched(call)._entry
    ctxs = [Attempt(lease, entry) for lease in await take(memory, 3, "batched")]
    runner = AttemptRunner(codec=Codec(), middleware=(), clock=SYSTEM, chance=SYSTEM_RANDOMNESS)
    ctxs[0].stop_cause, ctxs[1].stop_cause = Cause.CANCEL, Cause.SHUTDOWN

    first, second, third = [settlement.outcome for settlement in await runner.run_together(ctxs) if settlement]
    assert isinstance(first, Cancelled)
    assert (second, type(third), ran) == (Again(charged=False), Done, [1])

    for ctx in ctxs:
        ctx.stop_cause = Cause.SHUTDOWN
    ends = await runner.run_together(ctxs)
    assert [settlement and settlement.outcome for settlement in ends] == [Again(charged=False)] * 3
    assert ran == [1]
