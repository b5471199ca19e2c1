"""Coming to an end: what runs may end within the grace, the rest is handed back, nothing is left behind."""

import asyncio
import gc
import os
import signal
import threading
import time

import pytest

from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.engine.judge import Cause
from packhorse.engine.parked_claim import again
from packhorse.errors import ConfigError
from packhorse.model.job import State
from packhorse.stores.contract import Store
from packhorse.testing.faults import Delay, DelayReply, DropRequest
from tests.engine.factories import (
    SECOND,
    Crossing,
    EventName,
    EventRecorder,
    Gate,
    Inside,
    Once,
    Run,
    Tasks,
    job,
    jobs,
    worker,
)
from tests.factories import one, open_files, put_in, states

LONG = 600 * SECOND


async def standings(store: Store, ids: list[bytes]) -> set[tuple[State, int, int]]:
    """Where jobs stand, how often they were tried and lost."""
    return {(each.state, each.attempt, each.lost) for each in [await one(store, job) for job in ids]}


async def test_what_runs_may_end_within_the_grace(live, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="work")(gate)
    ids = await put_in(live, *jobs(10))
    async with worker(live, tasks, telemetry, grace=LONG):
        await recorder.until(EventName.STARTED, 10)
        opening = asyncio.create_task(open_when(recorder, EventName.WORKER_STOPPING, gate))

    await opening
    assert await standings(live, ids) == {(State.DONE, 1, 0)}


async def test_what_does_not_end_within_the_grace_is_stopped_and_handed_back_uncharged(live, telemetry, recorder):
    tasks, seen = Tasks(), []

    @tasks.task()
    async def work(number: int) -> None:
        current().publish("news", b"1")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(current_attempt().stop_cause)
            raise

    ids = await put_in(live, *jobs(10))
    async with worker(live, tasks, telemetry, grace=200_000):
        await recorder.until(EventName.STARTED, 10)
        begun = time.monotonic()

    assert time.monotonic() - begun < 0.2 + 1
    assert seen == [Cause.SHUTDOWN] * 10
    assert await standings(live, ids) == {(State.READY, 0, 0)}
    assert recorder.count(EventName.HANDED_BACK) == 10
    assert await live.streams.read("news") == []


async def test_a_worker_ends_soon_after_its_grace_whatever_its_handlers_do(live, telemetry, recorder):
    tasks, gate, free = Tasks(), threading.Event(), asyncio.Event()
    tasks.task(Run.THREAD, name="thread")(lambda: gate.wait(20))

    @tasks.task()
    async def stubborn() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                pass

    ids = await put_in(live, job("thread"), job("stubborn"))
    working = worker(live, tasks, telemetry, grace=100_000)
    async with working:
        await recorder.until(EventName.STARTED, 2)
        begun = time.monotonic()
    took = time.monotonic() - begun

    gate.set()
    free.set()
    assert took < 0.1 + 1.5
    assert await standings(live, ids) == {(State.READY, 0, 0)}


async def test_a_second_stop_ends_the_worker_without_waiting(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    working = worker(memory, tasks, telemetry, grace=LONG)
    running = asyncio.create_task(working.run())
    await recorder.until(EventName.STARTED)
    working.stop()
    await recorder.until(EventName.WORKER_STOPPING)
    assert working.stopping

    working.stop()
    await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_a_signal_stops_the_worker_and_a_second_one_stops_it_now(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    running = asyncio.create_task(worker(memory, tasks, telemetry, grace=LONG).run())
    await recorder.until(EventName.STARTED)

    os.kill(os.getpid(), signal.SIGTERM)
    await recorder.until(EventName.WORKER_STOPPING)
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_worker_asked_to_stop_before_it_began_takes_nothing(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(nothing)
    ids = await put_in(memory, *jobs(3))
    working = worker(memory, tasks, telemetry)
    working.stop()

    await asyncio.wait_for(working.run(), 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_no_job_begins_once_the_worker_stops_not_even_one_that_was_just_leased(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(nothing)
    crossing.rules["jobs.exchange"] = lambda settlements, ask=None: DelayReply(100_000) if ask else None
    ids = await put_in(memory, *jobs(5))
    async with worker(crossing.before(memory), tasks, telemetry) as working:
        async with asyncio.timeout(5):
            while (await states(memory, *ids)).count(State.RUNNING) < 5:
                await asyncio.sleep(0.001)
        working.stop()

    assert recorder.count(EventName.STARTED) == 0
    assert recorder.count(EventName.HANDED_BACK) == 5
    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_a_worker_whose_store_is_away_ends_all_the_same(memory, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.task(name="work")(gate)
    await put_in(memory, *jobs(3))
    async with worker(crossing.before(memory), tasks, telemetry, grace=100_000):
        await recorder.until(EventName.STARTED, 3)
        crossing.rules["*"] = lambda *args, **options: DropRequest()
        gate.open()
        begun = time.monotonic()

    assert time.monotonic() - begun < 0.1 + 1.9


async def test_an_error_beside_the_worker_ends_it_too(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))

    async def fail_beside() -> None:
        async with worker(memory, tasks, telemetry, grace=0):
            await recorder.until(EventName.STARTED)
            raise LookupError

    with pytest.raises(LookupError):
        await fail_beside()

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert recorder.count(EventName.WORKER_STOPPED) == 1


async def test_a_worker_that_is_cancelled_ends_like_one_that_is_stopped(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    running = asyncio.create_task(worker(memory, tasks, telemetry, grace=50_000).run())
    await recorder.until(EventName.STARTED)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert recorder.count(EventName.WORKER_STOPPED) == 1


async def test_a_worker_has_one_life(memory):
    working = worker(memory, Tasks())
    async with working:
        pass

    with pytest.raises(ConfigError, match="create a new one"):
        await working.run()


async def test_a_task_for_child_processes_needs_to_say_where_it_is(memory):
    tasks = Tasks()
    tasks.task(Run.PROCESS, name="heavy")(print)

    with pytest.raises(ConfigError, match="child process"):
        await worker(memory, tasks).run()


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_worker_whose_loop_ends_under_it_hands_back_what_runs(live, telemetry, recorder, run):
    tasks, hold = Tasks(), threading.Event()

    async def on_loop(number: int) -> None:
        await asyncio.Event().wait()

    tasks.task(run, name="work")(on_loop if run is Run.ASYNC else lambda number: hold.wait(20))
    ids = await put_in(live, *jobs(6))
    working = worker(live, tasks, telemetry, concurrency=3, grace=100_000)
    running = asyncio.create_task(working.run())
    await recorder.until(EventName.STARTED, 3)

    await cancel_all_tasks()
    hold.set()

    assert running.cancelled()
    assert recorder.count(EventName.WORKER_STOPPED)
    assert await standings(live, ids) == {(State.READY, 0, 0)}


async def cancel_all_tasks() -> None:
    """Cancel every other task of the loop and wait for their ends, as ``asyncio.run`` does when its main has returned."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def test_an_ask_whose_answer_is_missed_as_the_loop_ends_is_made_again_as_a_repeat(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(nothing)
    crossing.rules["jobs.exchange"] = Once(DelayReply(LONG))
    ids = await put_in(memory, *jobs(3))
    running = asyncio.create_task(worker(crossing.before(memory), tasks, telemetry).run())
    async with asyncio.timeout(10):
        while await standings(memory, ids) != {(State.RUNNING, 1, 0)}:
            await asyncio.sleep(0.001)

    await cancel_all_tasks()

    assert running.cancelled()
    first, *others = [args[1] for name, args in crossing.calls if name == "jobs.exchange" and args[1:] and args[1]]
    assert others == [again(first)]
    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_a_worker_that_is_cancelled_while_it_stops_hands_back_what_runs(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    working = worker(memory, tasks, telemetry, grace=LONG)
    running = asyncio.create_task(working.run())
    await recorder.until(EventName.STARTED)
    working.stop()
    await recorder.until(EventName.WORKER_STOPPING)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_what_is_handed_back_reaches_a_store_that_answers_slowly(memory, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry, grace=50_000):
        await recorder.until(EventName.STARTED)
        crossing.rules["jobs.exchange"] = lambda *args: Delay(SECOND)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


LIVES = 12


async def test_nothing_is_left_behind(live, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="work")(nothing)
    tasks.task(Run.THREAD, name="thread")(lambda number: None)

    async def life() -> None:
        before = recorder.count(EventName.DONE)
        await put_in(live, *jobs(20), *jobs(20, "thread"))
        async with worker(live, tasks, telemetry):
            await recorder.until(EventName.DONE, before + 40)

    await life()
    running, files = asyncio.all_tasks(), open_files()
    for _ in range(LIVES):
        await life()
    gc.collect()
    await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name.startswith("packhorse-thread"):
            thread.join(5)  # it was asked to end, and is not waited for by the worker

    assert asyncio.all_tasks() <= running
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("packhorse-thread")] == []
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("packhorse-keeper")] == []
    assert open_files() < files + LIVES  # the pool of a store may have grown, but not by one for each life


async def test_workers_that_are_replaced_under_load_lose_nothing(live, telemetry, recorder):
    tasks, inside = Tasks(), Inside()

    @tasks.task()
    async def work(number: int) -> None:
        with inside:
            current().publish("ran", b"%d" % number)
            await asyncio.sleep(0.005)

    ids = await put_in(live, *jobs(200))
    for part in (40, 80, 120):
        async with worker(live, tasks, telemetry, concurrency=8):
            await recorder.until(EventName.DONE, part)
    async with worker(live, tasks, telemetry, concurrency=8), worker(live, tasks, telemetry, concurrency=8):
        await recorder.until(EventName.DONE, 200)

    assert await standings(live, ids) == {(State.DONE, 1, 0)}
    assert sorted(int(event.data) for event in await live.streams.read("ran", limit=1000)) == list(range(200))
    assert inside.now == 0


async def open_when(recorder: EventRecorder, name: EventName, gate: Gate) -> None:
    await recorder.until(name)
    gate.open()


async def nothing(**_: object) -> None:
    pass
