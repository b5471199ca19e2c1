"""Calling jobs off, from any program, whether they wait or run."""

import asyncio
import threading
import time

import pytest

from packhorse import JobCancelled
from packhorse.engine.attempt import current_attempt
from tests.features.factories import run


async def test_a_job_that_waits_is_cancelled_at_once(app, make, clock):
    ran = []

    @app.task(name="work")
    async def work() -> None:
        ran.append(1)

    other = make(clock=clock)
    for job in (await work.enqueue(), await work.using(delay="1h").enqueue()):
        assert await other.job(job.id).cancel() == "cancelled"
    await run(app)

    assert ran == []
    assert await job.cancel() == "cancelled"


async def test_a_running_job_is_stopped_from_another_program(live, make):
    other, running, stopped = make(), asyncio.Event(), asyncio.Event()

    @live.task
    async def work() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job = await work.enqueue()
    async with live.worker(lease=1):
        await running.wait()
        assert await other.job(job.id).cancel() == "running"
        with pytest.raises(JobCancelled) as caught:
            await other.job(job.id).result(20)

    assert stopped.is_set()
    assert (caught.value.job_id, caught.value.task) == (job.id, work.name)
    assert (await job.info()).attempt == 1


async def test_a_running_thread_is_reported_and_stops_itself(live):
    running = threading.Event()

    @live.task
    def work() -> None:
        running.set()
        while True:
            current_attempt().raise_if_stopped()
            time.sleep(0.01)

    job = await work.enqueue()
    async with live.worker(lease=1):
        await asyncio.to_thread(running.wait, 20)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(20)


async def test_a_job_in_a_worker_process_is_stopped(live, place, workers):
    await workers.start(queues="sits", lease=1)
    job = await live.queue("sits").enqueue("sits")
    await place.until("begin")
    await job.cancel()

    with pytest.raises(JobCancelled):
        await job.result(20)
    assert len(place.lines("begin")) == 1


async def test_a_job_between_its_tries_is_cancelled_at_once(app):
    @app.task
    async def flaky() -> None:
        raise ValueError("no")

    job = await flaky.enqueue()
    await run(app)
    assert await job.state() == "scheduled"

    assert await job.cancel() == "cancelled"


async def test_a_job_that_has_ended_stays_as_it_is(app):
    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    await run(app)

    assert await job.cancel() == "done"
