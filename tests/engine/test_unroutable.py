"""Jobs of tasks that a worker does not know."""

import asyncio

from packhorse.model.job import State
from packhorse.model.reason import WaitReason
from packhorse.testing import run_until_idle
from packhorse.testing.faults import Delay
from tests.engine.factories import Crossing, EventName, Tasks, job, jobs, worker
from tests.factories import one, put_in, states

LEASE = 300_000


async def test_a_job_of_an_unknown_task_waits_uncharged_and_says_why(store, clock):
    [strange] = await put_in(store, job("strange"))

    await run_until_idle(store, Tasks(), clock=clock)

    found = await one(store, strange)
    assert (found.state, found.reason, found.detail) == (State.WAITING, WaitReason.UNROUTABLE, "strange")
    assert (found.attempt, found.lost, found.failures) == (0, 0, ())


async def test_jobs_of_known_tasks_run_beside_those_of_unknown_ones(memory, telemetry, recorder):
    tasks = Tasks()
    tasks.task(name="known")(nothing)
    mixed = [job("known" if number % 2 else "strange", number=number) for number in range(40)]
    ids = await put_in(memory, *mixed)
    async with worker(memory, tasks, telemetry, concurrency=3):
        await recorder.until(EventName.DONE, 20)
        reported = await recorder.until(EventName.WAITING, 20)

    assert {each["reason"] for each in reported} == {WaitReason.UNROUTABLE}
    assert await states(memory, *ids) == [State.WAITING, State.DONE] * 20


async def test_jobs_of_an_unknown_task_run_once_a_worker_that_knows_it_has_started(live, telemetry, recorder):
    knowing = Tasks()
    knowing.task(name="strange")(nothing)
    ids = await put_in(live, *jobs(5, "strange"))
    async with worker(live, Tasks(), telemetry, lease=LEASE):
        await recorder.until(EventName.WAITING, 5)
    assert set(await states(live, *ids)) == {State.WAITING}

    async with worker(live, knowing, telemetry, lease=LEASE):
        released = await recorder.until(EventName.RELEASED)
        await recorder.until(EventName.DONE, 5)

    assert released[0]["count"] == 5
    found = [await one(live, each) for each in ids]
    assert {(each.state, each.attempt) for each in found} == {(State.DONE, 1)}


async def test_jobs_find_the_one_worker_that_knows_their_task_even_if_it_is_the_slowest(live, telemetry, recorder):
    knowing, slowly = Tasks(), Crossing()
    knowing.task(name="strange")(nothing)
    slowly.rules["jobs.exchange"] = lambda *args: Delay(50_000)
    ids = await put_in(live, *jobs(20, "strange"))
    async with (
        worker(live, Tasks(), telemetry, lease=LEASE),
        worker(live, Tasks(), telemetry, lease=LEASE),
        worker(slowly.before(live), knowing, telemetry, lease=LEASE),
    ):
        await recorder.until(EventName.DONE, 20)

    found = [await one(live, each) for each in ids]
    assert {(each.state, each.attempt, each.lost) for each in found} == {(State.DONE, 1, 0)}


async def test_a_task_that_becomes_known_while_the_worker_runs_is_run(memory, telemetry, recorder):
    tasks = Tasks()
    await put_in(memory, job("late"))
    async with worker(memory, tasks, telemetry, lease=LEASE):
        await recorder.until(EventName.WAITING)
        tasks.task(name="late")(nothing)
        await recorder.until(EventName.DONE)


async def test_a_worker_may_know_more_tasks_than_one_call_can_name(memory, telemetry, recorder):
    knowing = Tasks()
    knowing.many({f"task {number}": nothing for number in range(1200)})
    await put_in(memory, *jobs(3, "task 1"), *jobs(3, "task 1199"))
    async with worker(memory, Tasks(), telemetry, lease=LEASE):
        await recorder.until(EventName.WAITING, 6)

    async with worker(memory, knowing, telemetry, lease=LEASE):
        await recorder.until(EventName.DONE, 6)

    assert recorder.count(EventName.DUTY_FAILED) == 0


async def nothing(**_: object) -> None:
    await asyncio.sleep(0)
