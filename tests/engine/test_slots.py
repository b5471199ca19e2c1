"""How many jobs a worker runs and holds at once."""

import asyncio
import threading

import pytest

from packhorse.engine import shares
from packhorse.errors import InvalidOption
from packhorse.model.job import State
from tests.engine.factories import (
    Crossing,
    EventName,
    Gate,
    Inside,
    Run,
    Tasks,
    job,
    jobs,
    lease_ahead,
    settings,
    worker,
)
from tests.factories import SECOND, one, put_in, states


class Mixed:
    """The same short work on the loop and in threads, counted together and apart."""

    def __init__(self) -> None:
        self.both, self.pause = Inside(), threading.Event()
        self.tasks = Tasks()
        self.tasks.task(name="async")(self.on_loop)
        self.tasks.task(Run.THREAD, name="thread")(self.in_thread)

    async def on_loop(self, number: int) -> None:
        with self.both:
            await asyncio.sleep(0.002)

    def in_thread(self, number: int) -> None:
        with self.both:
            self.pause.wait(0.002)


@pytest.mark.parametrize("concurrency", [1, 3, 8])
@pytest.mark.parametrize("kinds", [["async"], ["thread"], ["async", "thread"]], ids="+".join)
async def test_no_more_jobs_run_at_once_than_there_are_slots_and_all_slots_are_used(
    memory, telemetry, recorder, kinds, concurrency
):
    mixed = Mixed()
    await put_in(memory, *[job(kinds[number % len(kinds)], number=number) for number in range(80)])
    async with worker(memory, mixed.tasks, telemetry, concurrency=concurrency) as working:
        lease_ahead(working)
        await recorder.until(EventName.DONE, 80)

    assert mixed.both.most == concurrency


async def test_jobs_on_the_loop_get_their_turn_among_many_in_threads(memory, telemetry, recorder):
    mixed = Mixed()
    await put_in(memory, *jobs(200, "thread"))
    async with worker(memory, mixed.tasks, telemetry, concurrency=2) as working:
        lease_ahead(working)
        await recorder.until(EventName.DONE, 10, task="thread")
        await put_in(memory, job("async", number=0, priority=1))
        await recorder.until(EventName.DONE, task="async")
        assert recorder.count(EventName.DONE, "thread") < 200
        await recorder.until(EventName.DONE, 200, task="thread")


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_slots_of_a_queue_bound_what_runs_of_it(live, telemetry, recorder, run):
    tasks, bounded, free, pause = Tasks(), Inside(), Inside(), threading.Event()

    def work(number: int, which: str) -> None:
        with bounded if which == "bounded" else free:
            pause.wait(0.02)

    async def on_loop(number: int, which: str) -> None:
        with bounded if which == "bounded" else free:
            await asyncio.sleep(0.02)

    tasks.task(run, name="work")(on_loop if run is Run.ASYNC else work)
    await put_in(live, *jobs(20, queue="bounded", which="bounded"), *jobs(20, queue="free", which="free"))
    async with worker(
        live, tasks, telemetry, queues={"bounded": 10, "free": 1}, queue_concurrency={"bounded": 2}, concurrency=6
    ):
        await recorder.until(EventName.DONE, 40)

    assert bounded.most == 2
    assert free.most > 2


async def test_a_queue_whose_slots_are_taken_is_not_asked_again_and_again(live, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.task(name="work")(gate)
    await put_in(live, *jobs(10, queue="bounded"))
    async with worker(
        crossing.before(live), tasks, telemetry, queues={"bounded": 1, "empty": 1}, queue_concurrency={"bounded": 1}
    ):
        await recorder.until(EventName.STARTED)
        before = crossing.count("jobs.exchange")
        await asyncio.sleep(0.3)
        assert crossing.count("jobs.exchange") - before <= 5
        gate.open()
        await recorder.until(EventName.DONE, 10)

    assert gate.most == 1


async def test_a_paused_queue_with_ready_and_due_jobs_is_not_asked_again_and_again(live, telemetry, recorder):
    tasks, crossing = Tasks(), Crossing()
    tasks.task(name="work")(nothing)
    await live.queues.pause(["default"])
    await put_in(live, *jobs(10), *jobs(10, delay=1000))
    async with worker(crossing.before(live), tasks, telemetry):
        await asyncio.sleep(0.5)
        assert crossing.count("jobs.exchange") <= 8
        assert recorder.count(EventName.STARTED) == 0
        await live.queues.resume(["default"])
        await recorder.until(EventName.DONE, 20)


async def test_no_more_is_leased_than_runs_while_jobs_are_not_known_to_be_short(live, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="work")(gate)
    ids = await put_in(live, *jobs(20))
    async with worker(live, tasks, telemetry, concurrency=4):
        await recorder.until(EventName.STARTED, 4)
        assert sorted(await states(live, *ids)) == [State.READY] * 16 + [State.RUNNING] * 4
        gate.open()
        await recorder.until(EventName.DONE, 20)


async def test_more_is_leased_than_runs_once_jobs_are_known_to_be_short(live, telemetry, recorder, monkeypatch):
    monkeypatch.setattr(shares, "PREFETCH_MAX_MEAN_US", 10 * SECOND)  # a busy machine makes any job long
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.task(name="quick")(nothing)
    tasks.task(name="slow")(gate)
    await put_in(live, *jobs(400, "quick"))
    async with worker(crossing.before(live), tasks, telemetry, concurrency=10):
        await recorder.until(EventName.DONE, 400)
        assert crossing.count("jobs.exchange") < 100
        ids = await put_in(live, *jobs(12, "slow"))
        await recorder.until(EventName.STARTED, 10, task="slow")
        assert (await states(live, *ids)).count(State.RUNNING) > 10
        gate.open()
        await recorder.until(EventName.DONE, 12, task="slow")


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_what_is_in_hand_is_handed_back_uncharged_when_the_worker_stops(live, telemetry, recorder, run):
    tasks, gate, wait = Tasks(), Gate(), threading.Event()
    tasks.task(run, name="work")(gate if run is Run.ASYNC else lambda number: wait.wait(20))
    ids = await put_in(live, *jobs(20))
    async with worker(live, tasks, telemetry, concurrency=3) as working:
        lease_ahead(working)
        await recorder.until(EventName.STARTED, 3)
        assert set(await states(live, *ids)) == {State.RUNNING}

        async def end() -> None:
            await recorder.until(EventName.HANDED_BACK, 17)
            gate.open()
            wait.set()

        ending = asyncio.create_task(end())

    await ending
    found = [await one(live, each) for each in ids]
    assert sorted((each.state, each.attempt) for each in found) == [(State.DONE, 1)] * 3 + [(State.READY, 0)] * 17
    assert recorder.count(EventName.HANDED_BACK) == 17
    assert recorder.count(EventName.STARTED) == 3


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_what_is_in_hand_goes_to_other_workers_when_what_runs_turns_out_to_be_long(
    memory, telemetry, recorder, run
):
    tasks, gate, wait = Tasks(), Gate(), threading.Event()
    tasks.task(run, name="long")(gate if run is Run.ASYNC else lambda number: wait.wait(20))
    tasks.task(name="work")(nothing)
    await put_in(memory, *jobs(2, "long"), *jobs(10))
    async with worker(memory, tasks, telemetry, concurrency=2) as first:
        lease_ahead(first)
        await recorder.until(EventName.STARTED, 2)
        async with worker(memory, tasks, telemetry, concurrency=2):
            await recorder.until(EventName.DONE, 10, task="work")
        gate.open()
        wait.set()
        await recorder.until(EventName.DONE, 2, task="long")

    assert recorder.count(EventName.HANDED_BACK) >= 10


async def test_a_worker_with_more_slots_than_one_ask_carries_fills_them_all(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="work")(gate)
    for _ in range(2):
        await put_in(memory, *jobs(350))
    async with worker(memory, tasks, telemetry, concurrency=700, queue_concurrency={"default": 650}):
        await recorder.until(EventName.STARTED, 650)
        assert gate.now == 650
        gate.open()
        await recorder.until(EventName.DONE, 700)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 3, "queue_concurrency": {"a": 4}},
        {"queue_concurrency": {"a": 0}},
        {"max_lost": 0},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(options):
    with pytest.raises(InvalidOption):
        settings(**options)


async def nothing(**_: object) -> None:
    pass
