"""Jobs that were lost before: once, they run before others; twice, they run alone."""

import asyncio
import threading

import pytest

from packhorse.model.job import State
from tests.engine.factories import (
    SECOND,
    Crossing,
    EventName,
    Gate,
    Inside,
    Run,
    Tasks,
    job,
    jobs,
    lease_ahead,
    lost,
    worker,
)
from tests.factories import one, put_in, states

SHORT = 300_000


class Order:
    """Tasks that note in which order they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.tasks = Tasks()
        for name in ("lost", "other"):
            self.tasks.task(name=name)(self._note(name))

    def _note(self, name: str):
        async def note(**_: object) -> None:
            self.ran.append(name)
            await asyncio.sleep(0)

        return note


async def test_a_job_that_was_lost_once_runs_before_the_others_in_hand(memory, telemetry, recorder):
    order = Order()
    await put_in(memory, *jobs(10, "other"))
    await lost(memory, 1, "lost")
    async with worker(memory, order.tasks, telemetry, queues={"default": 10, "lost": 1}, concurrency=1) as working:
        lease_ahead(working)
        await recorder.until(EventName.DONE, 11)

    assert order.ran == ["lost"] + ["other"] * 10


@pytest.mark.parametrize("run", [Run.ASYNC, Run.THREAD])
async def test_a_job_that_was_lost_twice_runs_alone_and_the_others_go_on_after(live, telemetry, recorder, run):
    tasks, lone, others, beside = Tasks(), Inside(), Inside(), []
    pause = threading.Event()

    def alone(number: int) -> None:
        with lone:
            beside.append(others.now)
            pause.wait(0.05)

    async def alone_on_loop(number: int) -> None:
        with lone:
            beside.append(others.now)
            await asyncio.sleep(0.05)

    async def other(number: int) -> None:
        with others:
            beside.append(lone.now)
            await asyncio.sleep(0.001)

    tasks.task(run, name="lost")(alone if run is Run.THREAD else alone_on_loop)
    tasks.task(name="other")(other)
    [suspect] = await lost(live, 2, "lost")
    ids = await put_in(live, *jobs(30, "other"))
    async with worker(live, tasks, telemetry, queues={"lost": 1, "default": 10}, concurrency=5):
        await recorder.until(EventName.DONE, 31)

    assert set(beside) == {0}
    assert others.most > 1
    assert (await one(live, suspect)).lost == 2
    assert set(await states(live, suspect, *ids)) == {State.DONE}
    found = [await one(live, each) for each in ids]
    assert {(each.attempt, each.lost) for each in found} == {(1, 0)}


async def test_a_job_that_was_lost_twice_waits_for_those_that_run(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="other")(gate)
    tasks.task(name="lost")(nothing)
    [suspect] = await lost(memory, 2, "lost")
    await memory.queues.pause(["lost"])
    await put_in(memory, *jobs(2, "other"))
    async with worker(memory, tasks, telemetry, queues={"lost": 1, "default": 10}, concurrency=5):
        await recorder.until(EventName.STARTED, 2)
        await memory.queues.resume(["lost"])
        while (await one(memory, suspect)).state is not State.RUNNING:
            await asyncio.sleep(0.001)
        assert recorder.count(EventName.STARTED, "lost") == 0
        gate.open()
        await recorder.until(EventName.DONE, task="lost")

    reported = [
        name for name, fields in recorder.recorded if fields.get("lease") is not None and name is EventName.DONE
    ]
    assert len(reported) == 3
    assert gate.most == 2


async def test_a_job_that_must_run_alone_does_not_wait_for_ever(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="other")(gate)
    tasks.task(name="lost")(nothing)
    await lost(memory, 2, "lost")
    await memory.queues.pause(["lost"])
    await put_in(memory, job("other"))
    async with worker(memory, tasks, telemetry, queues={"lost": 1, "default": 10}, concurrency=5, lease=SHORT):
        await recorder.until(EventName.STARTED, task="other")
        await memory.queues.resume(["lost"])
        await recorder.until(EventName.DONE, task="lost")
        assert gate.now == 1
        gate.open()


async def test_others_go_on_beside_one_that_has_run_alone_for_a_whole_lease(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="lost")(gate)
    tasks.task(name="other")(nothing)
    await lost(memory, 2, "lost")
    async with worker(memory, tasks, telemetry, queues={"lost": 1, "default": 10}, lease=SHORT):
        await recorder.until(EventName.STARTED, task="lost")
        await put_in(memory, job("other"))
        await recorder.until(EventName.DONE, task="other")
        assert gate.now == 1
        gate.open()


async def test_a_worker_holds_one_job_at_a_time_that_was_lost_twice(memory, telemetry, recorder):
    tasks, inside = Tasks(), Inside()

    @tasks.task(name="lost")
    async def lone(number: int) -> None:
        with inside:
            await asyncio.sleep(0.01)

    await lost(memory, 2, "lost", count=3)
    async with worker(memory, tasks, telemetry, queues={"lost": 1}, lease=SHORT):
        await recorder.until(EventName.DONE, 3)

    assert inside.most == 1


async def test_nothing_is_leased_and_handed_back_beside_one_that_runs_alone(memory, telemetry, recorder):
    tasks, gate, crossing = Tasks(), Gate(), Crossing()
    tasks.task(name="lost")(gate)
    tasks.task(name="other")(nothing)
    await lost(memory, 2, "lost")
    await put_in(memory, *jobs(100, "other"))
    async with worker(
        crossing.before(memory), tasks, telemetry, queues={"lost": 1, "default": 10}, concurrency=5
    ) as working:
        lease_ahead(working)
        await recorder.until(EventName.STARTED, task="lost")
        await recorder.until(EventName.HANDED_BACK)
        before = crossing.count("jobs.exchange")
        await asyncio.sleep(0.3)
        assert crossing.count("jobs.exchange") - before <= 3
        assert recorder.count(EventName.HANDED_BACK) <= 45
        gate.open()
        await recorder.until(EventName.DONE, 101)


async def test_a_job_that_waits_to_run_alone_is_handed_back_when_the_worker_stops(memory, telemetry, recorder):
    tasks, gate = Tasks(), Gate()
    tasks.task(name="other")(gate)
    tasks.task(name="lost")(nothing)
    [suspect] = await lost(memory, 2, "lost")
    await memory.queues.pause(["lost"])
    await put_in(memory, job("other"))
    async with worker(memory, tasks, telemetry, queues={"lost": 1, "default": 10}, grace=5 * SECOND) as working:
        await recorder.until(EventName.STARTED, task="other")
        await memory.queues.resume(["lost"])
        while (await one(memory, suspect)).state is not State.RUNNING:
            await asyncio.sleep(0.001)
        working.stop()
        asyncio.get_running_loop().call_later(0.05, gate.open)

    found = await one(memory, suspect)
    assert (found.state, found.attempt, found.lost) == (State.READY, 2, 2)
    assert recorder.count(EventName.DONE, "other") == 1


async def nothing(**_: object) -> None:
    pass
