"""Time that is up: what can be stopped is stopped, what cannot is reported."""

import asyncio
import threading

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.judge import Cause
from packhorse.errors import WorkerStuck
from packhorse.model.job import State
from packhorse.model.reason import DeadReason
from tests.engine.factories import SECOND, EventName, Inside, Run, Tasks, job, worker
from tests.factories import one, put_in, states

SHORT = 100_000
PATIENCE = 200_000


@pytest.fixture
def gate():
    """Holds threads; opened at the end of the test in any case."""
    made = threading.Event()
    yield made
    made.set()


class Stubborn:
    """A handler that does not stop when it is asked to."""

    def __init__(self) -> None:
        self.reported, self.free = 0, asyncio.Event()

    async def __call__(self) -> None:
        while not self.free.is_set():
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                self.reported += 1


async def test_work_on_the_loop_is_stopped_and_tried_again(live, telemetry, recorder):
    tasks, seen = Tasks(), []

    @tasks.task(timeout=SHORT, attempts=2)
    async def late() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(current_attempt().stop_cause)
            raise

    [timed_out] = await put_in(live, job("late"))
    async with worker(live, tasks, telemetry):
        await recorder.until(EventName.DEAD)

    found = await one(live, timed_out)
    assert seen == [Cause.TIMEOUT] * 2
    assert (found.state, found.reason, found.attempt) == (State.DEAD, DeadReason.EXHAUSTED, 2)
    assert [(each.type, each.message) for each in found.failures] == [("TimeoutError", "timed out after 0.1 s")] * 2
    assert recorder.count(EventName.ATTEMPT_STUCK) == 0


async def test_whatever_a_handler_makes_of_being_stopped_it_timed_out(memory, telemetry, recorder):
    tasks = Tasks()

    @tasks.task(timeout=SHORT, attempts=1)
    async def late() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("stopped") from None

    [timed_out] = await put_in(memory, job("late"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DEAD)

    assert (await one(memory, timed_out)).failures[-1].type == "TimeoutError"


async def test_a_handler_that_ends_well_though_it_was_stopped_is_done(memory, telemetry, recorder):
    tasks = Tasks()

    @tasks.task(timeout=SHORT)
    async def late() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return "never"

    [saved] = await put_in(memory, job("late"))
    async with worker(memory, tasks, telemetry):
        await recorder.until(EventName.DONE)

    assert (await one(memory, saved)).result == b'"saved"'


async def test_time_counts_from_the_start_of_an_attempt(memory, telemetry, recorder):
    tasks = Tasks()

    @tasks.task(timeout=3 * SHORT, attempts=1)
    async def work() -> None:
        assert current_attempt().deadline is not None
        await asyncio.sleep(0.1)

    ids = await put_in(memory, *[job("work") for _ in range(5)])
    async with worker(memory, tasks, telemetry, concurrency=1):
        await recorder.until(EventName.DONE, 5)

    assert set(await states(memory, *ids)) == {State.DONE}


async def test_a_handler_that_swallows_its_cancellation_is_reported_settled_and_keeps_its_slot(
    live, telemetry, recorder
):
    tasks, stubborn = Tasks(), Stubborn()
    inside = Inside()
    tasks.task(name="stubborn", timeout=SHORT, attempts=1)(stubborn)

    @tasks.task()
    async def work() -> None:
        with inside:
            await asyncio.sleep(0.01)

    [held] = await put_in(live, job("stubborn"))
    async with worker(live, tasks, telemetry, concurrency=2, patience=PATIENCE):
        [stuck] = (await recorder.until(EventName.ATTEMPT_STUCK))[:1]
        assert stuck["lease"].id == held
        assert stuck["detail"] is Cause.TIMEOUT
        [dead] = await recorder.until(EventName.DEAD)
        assert dead["error"].type == "TimeoutError"
        await put_in(live, *[job("work") for _ in range(6)])
        await recorder.until(EventName.DONE, 6)
        assert stubborn.reported >= 1
        stubborn.free.set()

    found = await one(live, held)
    assert (found.state, found.attempt, found.lost) == (State.DEAD, 1, 0)
    assert inside.most == 1


async def test_a_slot_is_free_again_once_what_was_stuck_has_ended(memory, telemetry, recorder):
    tasks, stubborn = Tasks(), Stubborn()
    together = asyncio.Barrier(2)
    tasks.task(name="stubborn", timeout=SHORT, attempts=1)(stubborn)
    tasks.task(name="pair")(together.wait)

    await put_in(memory, job("stubborn"))
    async with worker(memory, tasks, telemetry, concurrency=2, patience=PATIENCE):
        await recorder.until(EventName.DEAD)
        stubborn.free.set()
        await put_in(memory, job("pair"), job("pair"))
        await recorder.until(EventName.DONE, 2)


async def test_a_stuck_thread_is_reported_its_job_settled_and_its_slot_still_counted(live, telemetry, recorder, gate):
    tasks = Tasks()
    inside = Inside()

    @tasks.task(Run.THREAD, timeout=SHORT, attempts=1)
    def stuck() -> None:
        gate.wait(20)

    @tasks.task(Run.THREAD)
    def work() -> None:
        with inside:
            gate.wait(0.01)

    [held] = await put_in(live, job("stuck"))
    async with worker(live, tasks, telemetry, concurrency=2, patience=PATIENCE):
        [reported] = await recorder.until(EventName.THREAD_STUCK)
        assert reported["lease"].id == held
        [dead] = await recorder.until(EventName.DEAD)
        assert dead["error"].message == "timed out after 0.1 s"
        await put_in(live, *[job("work") for _ in range(6)])
        await recorder.until(EventName.DONE, 6)
        gate.set()

    found = await one(live, held)
    assert (found.state, found.attempt, found.lost) == (State.DEAD, 1, 0)
    assert inside.most == 1


async def test_a_thread_that_looks_whether_it_should_end_is_not_stuck(memory, telemetry, recorder):
    tasks = Tasks()
    pause = threading.Event()

    @tasks.task(Run.THREAD, timeout=SHORT, attempts=1)
    def polite() -> None:
        while True:
            current_attempt().raise_if_stopped()
            pause.wait(0.01)

    [ended] = await put_in(memory, job("polite"))
    async with worker(memory, tasks, telemetry, patience=5 * SECOND):
        await recorder.until(EventName.DEAD)

    assert (await one(memory, ended)).failures[-1].type == "TimeoutError"
    assert recorder.count(EventName.THREAD_STUCK) == 0


async def test_a_worker_all_of_whose_slots_are_stuck_ends_and_says_so(memory, telemetry, recorder, gate):
    tasks, stubborn = Tasks(), Stubborn()
    tasks.task(name="stubborn", timeout=SHORT, attempts=1)(stubborn)
    tasks.task(Run.THREAD, name="stuck", timeout=SHORT, attempts=1)(lambda: gate.wait(20))
    ids = await put_in(memory, job("stubborn"), job("stuck"))

    with pytest.raises(WorkerStuck, match="All 2 slots"):
        await asyncio.wait_for(worker(memory, tasks, telemetry, concurrency=2, patience=PATIENCE).run(), 10)

    assert await states(memory, *ids) == [State.DEAD, State.DEAD]
    stubborn.free.set()


async def test_a_thread_that_ends_after_its_worker_is_gone_harms_nobody(memory, telemetry, recorder):
    tasks, gate, began, over = Tasks(), threading.Event(), threading.Event(), threading.Event()

    @tasks.task(Run.THREAD)
    def stuck() -> None:
        began.set()
        try:
            gate.wait(20)
        finally:
            over.set()

    [left] = await put_in(memory, job("stuck"))
    async with worker(memory, tasks, telemetry, grace=0):
        assert await asyncio.to_thread(
            began.wait, 20
        )  # reported as started, it might still be stopped before it begins

    before = (await one(memory, left)).state
    assert before in (State.READY, State.RUNNING)  # handed back, or on a busy machine left to be taken back
    gate.set()
    assert await asyncio.to_thread(over.wait, 5)
    assert (await one(memory, left)).state is before
