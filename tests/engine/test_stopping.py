"""Coming to an end: what runs may end within the grace, the rest is handed back, nothing is left behind."""

import asyncio
import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from packhorse.engine.context import current
from packhorse.engine.judge import Cause
from packhorse.errors import ConfigError
from packhorse.model.job import State
from packhorse.stores.contract import Store
from packhorse.testing.faults import Delay, DelayReply, DropRequest
from tests.engine.making import SECOND, Crossing, Gate, Heard, Inside, Name, Run, Tasks, job, jobs, worker
from tests.making import one, put_in, states

LONG = 600 * SECOND


async def standings(store: Store, ids: list[bytes]) -> set[tuple[State, int, int]]:
    """Where jobs stand, how often they were tried and lost."""
    return {(each.state, each.attempt, each.lost) for each in [await one(store, job) for job in ids]}


async def test_what_runs_may_end_within_the_grace(live, telemetry, heard):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="work")(gate)
    ids = await put_in(live, *jobs(10))
    async with worker(live, tasks, telemetry, grace=LONG):
        await heard.until(Name.STARTED, 10)
        opening = asyncio.create_task(open_when(heard, Name.WORKER_STOPPING, gate))

    await opening
    assert await standings(live, ids) == {(State.DONE, 1, 0)}


async def test_what_does_not_end_within_the_grace_is_stopped_and_handed_back_uncharged(live, telemetry, heard):
    tasks, seen = Tasks(), []

    @tasks.task()
    async def work(number: int) -> None:
        current().publish("news", b"1")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(current().stopped)
            raise

    ids = await put_in(live, *jobs(10))
    async with worker(live, tasks, telemetry, grace=200_000):
        await heard.until(Name.STARTED, 10)
        begun = time.monotonic()

    assert time.monotonic() - begun < 0.2 + 1
    assert seen == [Cause.SHUTDOWN] * 10
    assert await standings(live, ids) == {(State.READY, 0, 0)}
    assert heard.count(Name.HANDED_BACK) == 10
    assert await live.streams.read("news") == []


async def test_a_worker_ends_soon_after_its_grace_whatever_its_handlers_do(live, telemetry, heard):
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
        await heard.until(Name.STARTED, 2)
        begun = time.monotonic()
    took = time.monotonic() - begun

    gate.set()
    free.set()
    assert took < 0.1 + 1.5
    assert await standings(live, ids) == {(State.READY, 0, 0)}


async def test_said_again_the_worker_stops_without_waiting(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    working = worker(memory, tasks, telemetry, grace=LONG)
    running = asyncio.create_task(working.run())
    await heard.until(Name.STARTED)
    working.stop()
    await heard.until(Name.WORKER_STOPPING)
    assert working.stopping

    working.stop()
    await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_a_signal_stops_the_worker_and_a_second_one_stops_it_now(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    running = asyncio.create_task(worker(memory, tasks, telemetry, grace=LONG).run())
    await heard.until(Name.STARTED)

    os.kill(os.getpid(), signal.SIGTERM)
    await heard.until(Name.WORKER_STOPPING)
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_worker_told_to_stop_before_it_began_takes_nothing(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(nothing)
    ids = await put_in(memory, *jobs(3))
    working = worker(memory, tasks, telemetry)
    working.stop()

    await asyncio.wait_for(working.run(), 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_no_job_begins_once_the_worker_stops_not_even_one_that_was_just_leased(memory, telemetry, heard):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(nothing)
    crossing.rules["jobs.exchange"] = lambda settlements, ask=None: DelayReply(100_000) if ask else None
    ids = await put_in(memory, *jobs(5))
    async with worker(crossing.before(memory), tasks, telemetry) as working:
        async with asyncio.timeout(5):
            while (await states(memory, *ids)).count(State.RUNNING) < 5:
                await asyncio.sleep(0.001)
        working.stop()

    assert heard.count(Name.STARTED) == 0
    assert heard.count(Name.HANDED_BACK) == 5
    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_a_worker_whose_store_is_away_ends_all_the_same(memory, telemetry, heard):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.task(name="work")(gate)
    await put_in(memory, *jobs(3))
    async with worker(crossing.before(memory), tasks, telemetry, grace=100_000):
        await heard.until(Name.STARTED, 3)
        crossing.rules["*"] = lambda *args, **options: DropRequest()
        gate.open()
        begun = time.monotonic()

    assert time.monotonic() - begun < 0.1 + 1.9


async def test_an_error_beside_the_worker_ends_it_too(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))

    async def fail_beside() -> None:
        async with worker(memory, tasks, telemetry, grace=0):
            await heard.until(Name.STARTED)
            raise LookupError

    with pytest.raises(LookupError):
        await fail_beside()

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert heard.count(Name.WORKER_STOPPED) == 1


async def test_a_worker_that_is_cancelled_ends_like_one_that_is_stopped(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    running = asyncio.create_task(worker(memory, tasks, telemetry, grace=50_000).run())
    await heard.until(Name.STARTED)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}
    assert heard.count(Name.WORKER_STOPPED) == 1


async def test_a_worker_has_one_life(memory):
    working = worker(memory, Tasks())
    async with working:
        pass

    with pytest.raises(ConfigError, match="make a new one"):
        await working.run()


async def test_a_task_for_child_processes_needs_to_say_where_it_is(memory):
    tasks = Tasks()
    tasks.task(Run.PROCESS, name="heavy")(print)

    with pytest.raises(ConfigError, match="child process"):
        await worker(memory, tasks).run()


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_worker_whose_loop_ends_under_it_hands_back_what_runs(live, telemetry, heard, run):
    tasks, hold = Tasks(), threading.Event()

    async def on_loop(number: int) -> None:
        await asyncio.Event().wait()

    tasks.task(run, name="work")(on_loop if run is Run.ASYNC else lambda number: hold.wait(20))
    ids = await put_in(live, *jobs(6))
    working = worker(live, tasks, telemetry, concurrency=3, grace=100_000)
    running = asyncio.create_task(working.run())
    await heard.until(Name.STARTED, 3)

    await cancel_all_tasks()
    hold.set()

    assert running.cancelled()
    assert heard.count(Name.WORKER_STOPPED)
    assert await standings(live, ids) == {(State.READY, 0, 0)}


async def cancel_all_tasks() -> None:
    """Cancel every other task of the loop and wait for their ends, as ``asyncio.run`` does when its main has returned."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def test_a_worker_that_is_cancelled_while_it_stops_hands_back_what_runs(memory, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    working = worker(memory, tasks, telemetry, grace=LONG)
    running = asyncio.create_task(working.run())
    await heard.until(Name.STARTED)
    working.stop()
    await heard.until(Name.WORKER_STOPPING)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


async def test_what_is_handed_back_reaches_a_store_that_answers_slowly(memory, telemetry, heard):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(asyncio.Event().wait)
    ids = await put_in(memory, job("work"))
    async with worker(crossing.before(memory), tasks, telemetry, grace=50_000):
        await heard.until(Name.STARTED)
        crossing.rules["jobs.exchange"] = lambda *args: Delay(SECOND)

    assert await standings(memory, ids) == {(State.READY, 0, 0)}


LIVES = 12


async def test_nothing_is_left_behind(live, telemetry, heard):
    tasks = Tasks()
    tasks.task(name="work")(nothing)
    tasks.task(Run.THREAD, name="thread")(lambda number: None)

    async def life() -> None:
        before = heard.count(Name.DONE)
        await put_in(live, *jobs(20), *jobs(20, "thread"))
        async with worker(live, tasks, telemetry):
            await heard.until(Name.DONE, before + 40)

    await life()
    running, files = asyncio.all_tasks(), descriptors()
    for _ in range(LIVES):
        await life()
    gc.collect()
    await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name.startswith("packhorse-thread"):
            thread.join(5)  # it was told to end, and is not waited for by the worker

    assert asyncio.all_tasks() <= running
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("packhorse-thread")] == []
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("packhorse-keeper")] == []
    assert descriptors() < files + LIVES  # the pool of a store may have grown, but not by one for each life


async def test_workers_that_are_replaced_under_load_lose_nothing(live, telemetry, heard):
    tasks, inside = Tasks(), Inside()

    @tasks.task()
    async def work(number: int) -> None:
        with inside:
            current().publish("ran", b"%d" % number)
            await asyncio.sleep(0.005)

    ids = await put_in(live, *jobs(200))
    for part in (40, 80, 120):
        async with worker(live, tasks, telemetry, concurrency=8):
            await heard.until(Name.DONE, part)
    async with worker(live, tasks, telemetry, concurrency=8), worker(live, tasks, telemetry, concurrency=8):
        await heard.until(Name.DONE, 200)

    assert await standings(live, ids) == {(State.DONE, 1, 0)}
    assert sorted(int(event.data) for event in await live.streams.read("ran", limit=1000)) == list(range(200))
    assert inside.now == 0


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def open_when(heard: Heard, name: Name, gate: Gate) -> None:
    await heard.until(name)
    gate.open()


async def nothing(**_: object) -> None:
    pass
