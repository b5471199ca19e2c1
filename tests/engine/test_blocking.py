"""Handlers that block the event loop, or everything: leases are kept, and the one who blocks is named."""

import asyncio
import re
import threading
import time

import pytest

from packhorse.engine.context import current
from packhorse.model.job import State
from packhorse.stores.contract import Store
from tests.engine.making import SECOND, Name, Run, Tasks, job, worker
from tests.making import one, put_in

LEASE = 400_000


class Reaper:
    """Takes back what ran out, again and again, from a thread and a loop of its own."""

    def __init__(self, store: Store) -> None:
        self.lost = 0
        self.rounds = 0
        self._store, self._over = store.twin(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        await self._store.open()
        while not self._over.is_set():
            self.lost += len(await self._store.jobs.reap(100))
            self.rounds += 1
            await asyncio.sleep(0.05)
        await self._store.close()

    def __enter__(self) -> "Reaper":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


async def test_a_lease_is_kept_while_its_handler_blocks_the_loop_for_longer(live, telemetry, heard):
    tasks = Tasks()

    @tasks.task()
    async def blocker() -> str:
        time.sleep(1.6)  # a blocking call where none should be
        return "done"

    [blocked] = await put_in(live, job("blocker"))
    with Reaper(live) as reaper:
        async with worker(live, tasks, telemetry, lease=LEASE):
            await heard.until(Name.DONE)

    found = await one(live, blocked)
    assert (found.state, found.attempt, found.lost) == (State.DONE, 1, 0)
    assert reaper.lost == 0
    assert reaper.rounds > 5
    [told] = heard.of(Name.LOOP_BLOCKED)
    assert told["lease"].id == blocked
    assert told["duration"] >= SECOND
    assert re.search(r"test_blocking\.py:\d+ in blocker$", told["detail"])


async def test_jobs_in_hand_keep_their_leases_too_while_the_loop_is_blocked(memory, telemetry, heard):
    tasks = Tasks()

    @tasks.task()
    async def blocker() -> None:
        time.sleep(1)

    @tasks.task()
    async def work() -> None:
        await asyncio.sleep(0)

    await put_in(memory, job("work"), job("blocker"), job("work"), job("work"))
    with Reaper(memory) as reaper:
        async with worker(memory, tasks, telemetry, lease=LEASE, concurrency=4):
            await heard.until(Name.DONE, 4)

    assert reaper.lost == 0


async def test_other_code_that_blocks_the_loop_is_named_by_its_line(memory, telemetry, heard):
    async with worker(memory, Tasks(), telemetry):
        time.sleep(1.6)
        [told] = await heard.until(Name.LOOP_BLOCKED)

    assert told["lease"] is None
    assert "test_blocking.py" in told["detail"]


def slow_pattern() -> str:
    """A text on which a bad pattern takes about half a second, without giving up the interpreter once."""
    for size in range(16, 40):
        begun = time.perf_counter()
        search("a" * size)
        if time.perf_counter() - begun > 0.1:
            return "a" * (size + 2)
    raise AssertionError("no text is long enough")


def search(text: str) -> None:
    assert re.match(r"(a+)+$", text + "b") is None


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_job_that_holds_the_interpreter_for_longer_than_its_lease_is_accounted_for(
    memory, telemetry, heard, run
):
    tasks, text = Tasks(), slow_pattern()

    def holder() -> None:
        current().publish("ended", b"1")
        search(text)

    async def on_loop() -> None:
        holder()

    tasks.task(run, name="holder")(on_loop if run is Run.ASYNC else holder)

    @tasks.task()
    async def good() -> None:
        pass

    [held] = await put_in(memory, job("holder"))
    async with worker(memory, tasks, telemetry, lease=100_000, max_lost=1000):
        await heard.until(Name.DONE, task="holder")
        await put_in(memory, job("good"))
        await heard.until(Name.DONE, task="good")

    assert (await one(memory, held)).state is State.DONE
    assert len(await memory.streams.read("ended")) == 1
