"""Handlers that block the event loop, or everything: leases are kept, and the one who blocks is named."""

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from packhorse.engine.context import current
from packhorse.model.job import Job, State
from packhorse.stores.contract import Store
from packhorse.testing.faults import DropRequest
from tests.engine.making import SECOND, Crossing, Gate, Name, Run, Tasks, job, jobs, lease_ahead, worker
from tests.engine.test_batches import Batched, Sizes
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


class Observer:
    """Looks at the store from a thread and a loop of its own, while the loop of the test is blocked."""

    def __init__(self, store: Store) -> None:
        self._store = store.twin()

    def wait(self, ids: Sequence[bytes], state: State) -> set[tuple[State, int, int]]:
        """Block until these jobs are all in this state, and answer how they stand."""
        return ThreadPoolExecutor(1).submit(lambda: asyncio.run(self._wait(ids, state))).result()

    async def _wait(self, ids: Sequence[bytes], state: State) -> set[tuple[State, int, int]]:
        await self._store.open()
        try:
            async with asyncio.timeout(15):
                found = await self._look(ids)
                while {each.state for each in found} != {state}:
                    await asyncio.sleep(0.01)
                    found = await self._look(ids)
            return {(each.state, each.attempt, each.lost) for each in found}
        finally:
            await self._store.close()

    async def _look(self, ids: Sequence[bytes]) -> list[Job]:
        return [await one(self._store, each) for each in ids]


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_jobs_that_have_not_begun_are_handed_back_while_the_loop_is_blocked_for_long(live, telemetry, heard, run):
    tasks, observer, hold = Tasks(), Observer(live), threading.Event()
    gate = Gate()
    tasks.task(run, name="slow")(gate if run is Run.ASYNC else lambda: hold.wait(20))
    tasks.task(run, name="work")(nothing if run is Run.ASYNC else lambda number: None)
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=1, patience=100_000) as working:
        lease_ahead(working)
        [_, *ids] = await put_in(live, job("slow"), *jobs(3))
        await heard.until(Name.STARTED, task="slow")
        stands = observer.wait(ids, State.READY)
        gate.open()
        hold.set()
        await heard.until(Name.DONE, 3, task="work")

    assert stands == {(State.READY, 0, 0)}
    assert heard.count(Name.HANDED_BACK, "work") == 3
    assert {((await one(live, each)).attempt, (await one(live, each)).lost) for each in ids} == {(1, 0)}
    assert heard.count(Name.STARTED, "work") == 3


async def test_jobs_with_a_slot_whose_code_has_not_begun_are_handed_back_too(live, telemetry, heard):
    tasks, observer, ran = Tasks(), Observer(live), []

    @tasks.task()
    async def blocker() -> None:
        stands = observer.wait(ids, State.READY)
        ran.append(stands)

    @tasks.task()
    async def work(number: int) -> None:
        ran.append(number)

    first, others = job("blocker"), jobs(2)
    ids = [each.id for each in others]
    await put_in(live, first, *others)
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=3, patience=100_000):
        await heard.until(Name.DONE, 3)

    assert ran[0] == {(State.READY, 0, 0)}
    assert sorted(ran[1:]) == [0, 1]
    assert {((await one(live, each)).attempt, (await one(live, each)).lost) for each in ids} == {(1, 0)}


async def test_a_batch_with_a_slot_that_has_not_begun_is_handed_back_too(memory, telemetry, heard):
    sizes, observer = Sizes(), Observer(memory)
    tasks = Batched(sizes, size=2)

    @tasks.task()
    async def blocker() -> None:
        observer.wait(ids, State.READY)

    first, others = job("blocker"), jobs(2, queue="batched")
    ids = [each.id for each in others]
    await put_in(memory, first, *others)
    queues = {"default": 1, "batched": 1}
    async with worker(memory, tasks, telemetry, lease=5 * SECOND, concurrency=3, patience=100_000, queues=queues):
        await heard.until(Name.DONE, 3)

    assert sizes.seen == [2]
    assert {((await one(memory, each)).attempt, (await one(memory, each)).lost) for each in ids} == {(1, 0)}


async def test_a_batch_that_is_not_full_is_handed_back_while_the_loop_is_blocked_for_long(memory, telemetry, heard):
    tasks, observer = Batched(nothing, size=3, wait=600 * SECOND), Observer(memory)
    async with worker(memory, tasks, telemetry, queues={"batched": 1}, patience=100_000):
        ids = await put_in(memory, *jobs(2, queue="batched"))
        async with asyncio.timeout(10):
            while {(await one(memory, each)).state for each in ids} != {State.RUNNING}:
                await asyncio.sleep(0.001)
        stands = observer.wait(ids, State.READY)
        await put_in(memory, *jobs(1, queue="batched"))
        await heard.until(Name.DONE, 3)

    assert stands == {(State.READY, 0, 0)}


async def test_attempts_that_have_ended_are_settled_while_the_loop_is_blocked_for_long(live, telemetry, heard):
    tasks, observer, hold = Tasks(), Observer(live), threading.Event()

    @tasks.task(Run.THREAD)
    def thread() -> str:
        hold.wait(20)
        current().progress(100, "at the end")
        return "from a thread"

    @tasks.task()
    async def short() -> str:
        return "from the loop"

    @tasks.task()
    async def blocker() -> None:
        hold.set()
        observer.wait(ids[:2], State.DONE)

    wanted = [job("thread"), job("short"), job("blocker")]
    ids = [each.id for each in wanted]
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=3, patience=100_000):
        await put_in(live, *wanted)
        await heard.until(Name.DONE, 3)

    assert [(await one(live, each)).result for each in ids] == [b'"from a thread"', b'"from the loop"', None]
    assert {(await one(live, each)).attempt for each in ids} == {1}
    assert b"at the end" in ((await one(live, ids[0])).progress or b"")


async def test_what_could_not_be_handed_back_while_the_loop_was_blocked_runs_when_it_goes_on(memory, telemetry, heard):
    tasks, crossing, gate = Tasks(), Crossing(), Gate()
    tasks.task(name="slow")(gate)
    tasks.task(name="work")(nothing)
    async with worker(
        crossing.before(memory), tasks, telemetry, lease=SECOND, concurrency=1, patience=100_000
    ) as working:
        lease_ahead(working)
        ids = await put_in(memory, job("slow"), *jobs(3))
        await heard.until(Name.STARTED, task="slow")
        crossing.rules["jobs.exchange"] = lambda *args: DropRequest()
        asked = crossing.count("jobs.exchange")
        while crossing.count("jobs.exchange") < asked + 2:
            time.sleep(0.01)
        crossing.rules.clear()
        gate.open()
        await heard.until(Name.DONE, 4)

    assert {(await one(memory, each)).attempt for each in ids} == {1}


async def nothing(*_: object, **__: object) -> None:
    pass
