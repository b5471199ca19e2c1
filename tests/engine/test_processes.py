"""Tasks in child processes, seen from the worker: whatever happens there, jobs are accounted for."""

import asyncio
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from packhorse.engine.context import Context
from packhorse.model import codec
from packhorse.model.job import State
from packhorse.model.reason import DeadReason
from tests.engine import process_tasks
from tests.engine.factories import EventName, job, jobs, lost, worker
from tests.factories import one, put_in

ORIGIN = "tests.engine.process_tasks:registry"


def processes(store, telemetry, **options):
    return worker(store, process_tasks.registry, telemetry, **{"origin": ORIGIN, "concurrency": 2, **options})


async def test_a_task_runs_in_a_child_and_its_effects_are_written(live, telemetry, recorder):
    [done] = await put_in(live, job("work"))
    async with processes(live, telemetry, concurrency=1):
        await recorder.until(EventName.DONE)

    found = await one(live, done)
    assert (found.state, found.result) == (State.DONE, b'"good"')
    assert len(await live.streams.read("news")) == 1


async def test_a_variable_set_in_one_job_is_unset_in_the_next(memory, telemetry, recorder):
    ids = await put_in(memory, *jobs(5, "tenant"))
    async with processes(memory, telemetry, concurrency=1):
        await recorder.until(EventName.DONE, 5)

    assert {(await one(memory, each)).result for each in ids} == {b'"nobody"'}


async def test_middleware_runs_in_the_worker(memory, telemetry, recorder):
    seen: list[int] = []

    @contextmanager
    def around(ctx: Context) -> Iterator[None]:
        seen.append(os.getpid())
        yield

    await put_in(memory, job("work"))
    async with processes(memory, telemetry, concurrency=1, more={"middleware": [around]}):
        await recorder.until(EventName.DONE)

    assert seen == [os.getpid()]


@pytest.mark.parametrize(
    ("task", "reason"),
    [("vanish", DeadReason.EXHAUSTED), ("leave", DeadReason.EXHAUSTED), ("odd", DeadReason.FINAL)],
)
async def test_a_child_that_goes_or_fails_costs_its_job_alone(memory, telemetry, recorder, task, reason):
    [failed] = await put_in(memory, job(task))
    async with processes(memory, telemetry):
        await recorder.until(EventName.DEAD)
        await put_in(memory, job("work"))
        await recorder.until(EventName.DONE)

    found = await one(memory, failed)
    assert (found.state, found.reason, found.lost) == (State.DEAD, reason, 0)


async def test_a_failure_in_a_child_knows_its_function_there_and_its_worker_here(memory, telemetry, recorder):
    [failed] = await put_in(memory, job("leave"))
    async with processes(memory, telemetry, name="w-1", release="7.1"):
        await recorder.until(EventName.DEAD)

    [failure] = (await one(memory, failed)).failures
    assert (failure.worker, failure.release, failure.frame) == ("w-1", "7.1", "tests.engine.process_tasks.leave")
    assert failure.duration
    assert failure.fingerprint


@pytest.mark.parametrize("times", [1, 2])
async def test_a_child_that_goes_with_a_job_that_was_lost_before_is_a_failure_and_no_loss(
    memory, telemetry, recorder, times
):
    [failed] = await lost(memory, times, "vanish")
    async with processes(memory, telemetry, queues={"lost": 1}):
        await recorder.until(EventName.DEAD)

    found = await one(memory, failed)
    assert (found.state, found.reason, found.lost) == (State.DEAD, DeadReason.EXHAUSTED, times)
    assert {failure.type.rpartition(".")[2] for failure in found.failures} == {"ChildDied"}


async def test_the_start_of_a_child_does_not_count_against_the_time_of_its_job(memory, telemetry, recorder):
    [done] = await put_in(memory, job("brief"))
    async with processes(memory, telemetry, concurrency=1, origin="tests.engine.process_slow:registry"):
        await recorder.until(EventName.DONE)

    assert (await one(memory, done)).result == b'"in time"'


@pytest.mark.parametrize("task", ["late", "holding"])
async def test_work_in_a_child_is_killed_when_its_time_is_up(memory, telemetry, recorder, task):
    [killed] = await put_in(memory, job(task))
    async with processes(memory, telemetry, concurrency=1, patience=10_000_000):
        await recorder.until(EventName.DEAD)
        await put_in(memory, job("tenant", number=1))
        await recorder.until(EventName.DONE)

    assert (await one(memory, killed)).failures[-1].type == "TimeoutError"
    assert await memory.streams.read("news") == []
    assert recorder.count(EventName.ATTEMPT_STUCK) == 0


async def test_work_in_a_child_is_called_off_or_handed_back_and_the_child_is_gone(memory, telemetry, recorder):
    [called_off] = await put_in(memory, job("endless"))
    async with processes(memory, telemetry, grace=0, patience=300_000, lease=600_000):
        first = await pid(memory, called_off)
        await memory.jobs.cancel([called_off])
        await recorder.until(EventName.CANCELLED)
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
        while (reported := (await one(store, running)).progress) is None:
            await asyncio.sleep(0.01)
    return int(codec.decode(reported)["message"])


async def test_the_last_progress_of_a_child_is_there_when_its_job_is_settled(memory, telemetry, recorder):
    [done] = await put_in(memory, job("counted"))
    async with processes(memory, telemetry, concurrency=1):
        await recorder.until(EventName.DONE)

    assert codec.decode((await one(memory, done)).progress) == {"percent": 100, "message": "3 of 3"}


@pytest.fixture
def _children_ignored() -> Iterator[None]:
    """As under some supervisors: the system reaps children, and nobody is informed of their end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("_children_ignored")
async def test_a_child_that_dies_is_noticed_also_where_sigchld_is_ignored(memory, telemetry, recorder):
    [failed] = await put_in(memory, job("vanish"))
    async with asyncio.timeout(20):
        async with processes(memory, telemetry, concurrency=1):
            await recorder.until(EventName.DEAD)

    assert "SIGCHLD is ignored" in (await one(memory, failed)).failures[-1].message


async def test_a_child_that_cannot_start_costs_no_attempt(live, telemetry, recorder):
    [waiting] = await put_in(live, job("work"))
    async with processes(live, telemetry, origin="tests.integration.child_broken:app", concurrency=1):
        reported = await recorder.until(EventName.RETRYING, 3)

    found = await one(live, waiting)
    assert (found.attempt, found.lost) == (0, 0)
    assert found.state in (State.READY, State.SCHEDULED)
    assert "broken on purpose" in found.failures[-1].message
    assert [each["delay"] for each in reported] == sorted(each["delay"] for each in reported)
    assert reported[-1]["delay"] > 0
    assert recorder.count(EventName.CHILD_DIED) >= 3


async def test_a_child_for_which_a_descriptor_is_refused_costs_no_attempt_either(
    memory, telemetry, recorder, monkeypatch
):
    refused = OSError(errno.EMFILE, "Too many open files")
    loop = asyncio.get_running_loop()
    usual, failures = loop.create_unix_connection, [refused]

    async def connect(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await usual(*args, **options)

    monkeypatch.setattr(loop, "create_unix_connection", connect)
    [done] = await put_in(memory, job("work"))
    async with processes(memory, telemetry, concurrency=1):
        await recorder.until(EventName.RETRYING)
        await recorder.until(EventName.DONE)

    assert (await one(memory, done)).attempt == 1
