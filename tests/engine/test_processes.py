"""Tasks in child processes, seen from the worker: whatever happens there, jobs are accounted for."""

import asyncio
import os

import pytest

from packhorse.model import codec
from packhorse.model.job import State
from packhorse.model.reason import DeadReason
from tests.engine import process_tasks
from tests.engine.making import Name, job, jobs, worker
from tests.making import one, put_in

ORIGIN = "tests.engine.process_tasks:registry"


def processes(store, telemetry, **options):
    return worker(store, process_tasks.registry, telemetry, **{"origin": ORIGIN, "concurrency": 2, **options})


async def test_a_task_runs_in_a_child_and_its_effects_are_written(live, telemetry, heard):
    [done] = await put_in(live, job("work"))
    async with processes(live, telemetry, concurrency=1):
        await heard.until(Name.DONE)

    found = await one(live, done)
    assert (found.state, found.result) == (State.DONE, b'"good"')
    assert len(await live.streams.read("news")) == 1


async def test_a_variable_set_in_one_job_is_unset_in_the_next(memory, telemetry, heard):
    ids = await put_in(memory, *jobs(5, "tenant"))
    async with processes(memory, telemetry, concurrency=1):
        await heard.until(Name.DONE, 5)

    assert {(await one(memory, each)).result for each in ids} == {b'"nobody"'}


@pytest.mark.parametrize(
    ("task", "reason"),
    [("vanish", DeadReason.EXHAUSTED), ("leave", DeadReason.EXHAUSTED), ("odd", DeadReason.FINAL)],
)
async def test_a_child_that_goes_or_fails_costs_its_job_alone(memory, telemetry, heard, task, reason):
    [failed] = await put_in(memory, job(task))
    async with processes(memory, telemetry):
        await heard.until(Name.DEAD)
        await put_in(memory, job("work"))
        await heard.until(Name.DONE)

    found = await one(memory, failed)
    assert (found.state, found.reason, found.lost) == (State.DEAD, reason, 0)


async def test_the_start_of_a_child_does_not_count_against_the_time_of_its_job(memory, telemetry, heard):
    [done] = await put_in(memory, job("brief"))
    async with processes(memory, telemetry, concurrency=1, origin="tests.engine.process_slow:registry"):
        await heard.until(Name.DONE)

    assert (await one(memory, done)).result == b'"in time"'


@pytest.mark.parametrize("task", ["late", "holding"])
async def test_work_in_a_child_is_killed_when_its_time_is_up(memory, telemetry, heard, task):
    [killed] = await put_in(memory, job(task))
    async with processes(memory, telemetry, concurrency=1, patience=10_000_000):
        await heard.until(Name.DEAD)
        await put_in(memory, job("tenant", number=1))
        await heard.until(Name.DONE)

    assert (await one(memory, killed)).failures[-1].type == "TimeoutError"
    assert await memory.streams.read("news") == []
    assert heard.count(Name.ATTEMPT_STUCK) == 0


async def test_work_in_a_child_is_called_off_or_handed_back_and_the_child_is_gone(memory, telemetry, heard):
    [called_off] = await put_in(memory, job("endless"))
    async with processes(memory, telemetry, grace=0, patience=300_000, lease=600_000):
        first = await pid(memory, called_off)
        await memory.jobs.cancel([called_off])
        await heard.until(Name.CANCELLED)
        [left] = await put_in(memory, job("endless"))
        second = await pid(memory, left)

    assert (await one(memory, called_off)).state is State.CANCELLED
    found = await one(memory, left)
    assert (found.state, found.attempt) == (State.READY, 0)
    for child in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


async def pid(store, running) -> int:
    """The process a job runs in, as it tells."""
    async with asyncio.timeout(20):
        while (told := (await one(store, running)).progress) is None:
            await asyncio.sleep(0.01)
    return int(codec.decode(told)["message"])
