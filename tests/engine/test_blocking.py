"""Handlers that block the event loop, or everything: leases are kept, and the one who blocks is named."""

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from packhorse.engine.context import current
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry
from packhorse.model.job import State, StoredJob
from packhorse.model.lease import Lease
from packhorse.stores.contract import Store
from packhorse.testing.faults import DropRequest
from tests.engine.factories import (
    SECOND,
    Crossing,
    EventName,
    Gate,
    Run,
    Tasks,
    Worker,
    job,
    jobs,
    lease_ahead,
    lost,
    worker,
)
from tests.engine.test_batches import Batched, Sizes
from tests.factories import new, one, put_in

LEASE = 400_000


class Reaper:
    """Takes back what ran out, again and again, from a thread and a loop of its own."""

    def __init__(self, store: Store) -> None:
        self.lost = 0
        self.rounds = 0
        self._store, self._over = store.clone(), threading.Event()
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


async def test_a_lease_is_kept_while_its_handler_blocks_the_loop_for_longer(live, telemetry, recorder):
    tasks = Tasks()

    @tasks.task()
    async def blocker() -> str:
        time.sleep(1.6)  # a blocking call where none should be
        return "done"

    [blocked] = await put_in(live, job("blocker"))
    with Reaper(live) as reaper:
        async with worker(live, tasks, telemetry, lease=LEASE):
            await recorder.until(EventName.DONE)

    found = await one(live, blocked)
    assert (found.state, found.attempt, found.lost) == (State.DONE, 1, 0)
    assert reaper.lost == 0
    assert reaper.rounds > 5
    [reported] = recorder.of(EventName.LOOP_BLOCKED)
    assert reported["lease"].id == blocked
    assert reported["duration"] >= SECOND
    assert re.search(r"test_blocking\.py:\d+ in blocker$", reported["detail"])


async def test_jobs_in_hand_keep_their_leases_too_while_the_loop_is_blocked(memory, telemetry, recorder):
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
            await recorder.until(EventName.DONE, 4)

    assert reaper.lost == 0


async def test_other_code_that_blocks_the_loop_is_named_by_its_line(memory, telemetry, recorder):
    async with worker(memory, Tasks(), telemetry):
        time.sleep(1.6)
        [reported] = await recorder.until(EventName.LOOP_BLOCKED)

    assert reported["lease"] is None
    assert "test_blocking.py" in reported["detail"]


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
    memory, telemetry, recorder, run
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
        await recorder.until(EventName.DONE, task="holder")
        await put_in(memory, job("good"))
        await recorder.until(EventName.DONE, task="good")

    assert (await one(memory, held)).state is State.DONE
    assert len(await memory.streams.read("ended")) == 1


class Observer:
    """Looks at the store from a thread and a loop of its own, while the loop of the test is blocked."""

    def __init__(self, store: Store) -> None:
        self._store = store.clone()

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

    async def _look(self, ids: Sequence[bytes]) -> list[StoredJob]:
        return [await one(self._store, each) for each in ids]


async def until_held(working: Worker, *ids: bytes) -> None:
    """Wait until a worker has these leases: the store tells that they run before its answer has arrived."""
    async with asyncio.timeout(10):
        while not working._slots.held.keys() >= set(ids):
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_jobs_that_have_not_begun_are_handed_back_while_the_loop_is_blocked_for_long(
    live, telemetry, recorder, run
):
    tasks, observer, hold = Tasks(), Observer(live), threading.Event()
    gate = Gate()
    tasks.task(run, name="slow")(gate if run is Run.ASYNC else lambda: hold.wait(20))
    tasks.task(run, name="work")(nothing if run is Run.ASYNC else lambda number: None)
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=1, patience=100_000) as working:
        lease_ahead(working)
        [_, *ids] = await put_in(live, job("slow"), *jobs(3))
        await recorder.until(EventName.STARTED, task="slow")
        stands = observer.wait(ids, State.READY)
        gate.open()
        hold.set()
        await recorder.until(EventName.DONE, 3, task="work")

    assert stands == {(State.READY, 0, 0)}
    assert recorder.count(EventName.HANDED_BACK, "work") == 3
    assert {((await one(live, each)).attempt, (await one(live, each)).lost) for each in ids} == {(1, 0)}
    assert recorder.count(EventName.STARTED, "work") == 3


async def test_jobs_with_a_slot_whose_code_has_not_begun_are_handed_back_too(live, telemetry, recorder):
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
        await recorder.until(EventName.DONE, 3)

    assert ran[0] == {(State.READY, 0, 0)}
    assert sorted(ran[1:]) == [0, 1]
    assert {((await one(live, each)).attempt, (await one(live, each)).lost) for each in ids} == {(1, 0)}


class AsItIs:
    """Completes each payload, and changes none."""

    def wanted(self, headers: bytes) -> bool:
        return True

    async def payload(self, lease: Lease, payload: bytes) -> bytes:
        return payload


async def test_jobs_whose_payload_is_still_to_be_completed_are_handed_back_too(live, telemetry, recorder):
    tasks, observer, ran = Tasks(), Observer(live), []

    @tasks.task()
    async def blocker() -> None:
        ran.append(observer.wait([follower.id], State.READY))

    async def follow() -> None:
        ran.append(current().attempt)

    tasks.add(Entry(name="follow", call=follow, policy=Policy(), fetch=AsItIs()))
    follower = new("follow", headers=b'{"user":"u1"}')
    await put_in(live, job("blocker"), follower)
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=2, patience=100_000):
        await recorder.until(EventName.DONE, 2)

    assert ran == [{(State.READY, 0, 0)}, 1]


async def test_a_job_lost_once_that_is_not_recorded_as_begun_is_handed_back_too(live, telemetry, recorder):
    tasks, observer, ran = Tasks(), Observer(live), []

    @tasks.task(attempts=1)
    async def blocker() -> None:
        ran.append(observer.wait([suspect], State.READY))

    @tasks.task(name="lost")
    async def again(number: int) -> None:
        ran.append(number)

    [suspect] = await lost(live, 1, "lost")
    await put_in(live, job("blocker"))
    queues = {"lost": 1, "default": 1}
    async with worker(live, tasks, telemetry, lease=5 * SECOND, concurrency=3, patience=100_000, queues=queues):
        await recorder.until(EventName.DONE, 2)

    assert ran == [{(State.READY, 1, 1)}, 0]
    assert ((await one(live, suspect)).attempt, (await one(live, suspect)).lost) == (2, 1)


async def test_a_job_lost_twice_that_waits_to_run_alone_is_handed_back_too(live, telemetry, recorder):
    tasks, observer, gate = Tasks(), Observer(live), Gate()
    tasks.task(name="slow")(gate)
    tasks.task(name="lost")(nothing)
    [suspect] = await lost(live, 2, "lost")
    await live.queues.pause(["lost"])
    await put_in(live, job("slow"))
    queues = {"lost": 1, "default": 1}
    options = {"lease": 5 * SECOND, "concurrency": 3, "patience": 100_000, "queues": queues}
    async with worker(live, tasks, telemetry, **options) as working:
        await recorder.until(EventName.STARTED, task="slow")
        await live.queues.resume(["lost"])
        await until_held(working, suspect)
        stands = observer.wait([suspect], State.READY)
        gate.open()
        await recorder.until(EventName.DONE, 2)

    assert stands == {(State.READY, 2, 2)}
    assert recorder.count(EventName.STARTED, "lost") == 1
    assert ((await one(live, suspect)).attempt, (await one(live, suspect)).lost) == (3, 2)


async def test_a_batch_with_a_slot_that_has_not_begun_is_handed_back_too(memory, telemetry, recorder):
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
        await recorder.until(EventName.DONE, 3)

    assert sizes.seen == [2]
    assert {((await one(memory, each)).attempt, (await one(memory, each)).lost) for each in ids} == {(1, 0)}


async def test_a_batch_that_is_not_full_is_handed_back_while_the_loop_is_blocked_for_long(memory, telemetry, recorder):
    tasks, observer = Batched(nothing, size=3, wait=600 * SECOND), Observer(memory)
    async with worker(memory, tasks, telemetry, queues={"batched": 1}, patience=100_000) as working:
        ids = await put_in(memory, *jobs(2, queue="batched"))
        await until_held(working, *ids)
        stands = observer.wait(ids, State.READY)
        await put_in(memory, *jobs(1, queue="batched"))
        await recorder.until(EventName.DONE, 3)

    assert stands == {(State.READY, 0, 0)}


async def test_attempts_that_have_ended_are_settled_while_the_loop_is_blocked_for_long(live, telemetry, recorder):
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
        await recorder.until(EventName.DONE, 3)

    assert [(await one(live, each)).result for each in ids] == [b'"from a thread"', b'"from the loop"', None]
    assert {(await one(live, each)).attempt for each in ids} == {1}
    assert b"at the end" in ((await one(live, ids[0])).progress or b"")


async def test_what_could_not_be_handed_back_while_the_loop_was_blocked_runs_when_it_goes_on(
    memory, telemetry, recorder
):
    tasks, crossing, gate = Tasks(), Crossing(), Gate()
    tasks.task(name="slow")(gate)
    tasks.task(name="work")(nothing)
    async with worker(
        crossing.before(memory), tasks, telemetry, lease=SECOND, concurrency=1, patience=100_000
    ) as working:
        lease_ahead(working)
        ids = await put_in(memory, job("slow"), *jobs(3))
        await recorder.until(EventName.STARTED, task="slow")
        crossing.rules["jobs.exchange"] = lambda *args: DropRequest()
        asked = crossing.count("jobs.exchange")
        while crossing.count("jobs.exchange") < asked + 2:
            time.sleep(0.01)
        crossing.rules.clear()
        gate.open()
        await recorder.until(EventName.DONE, 4)

    assert {(await one(memory, each)).attempt for each in ids} == {1}


async def nothing(*_: object, **__: object) -> None:
    pass
