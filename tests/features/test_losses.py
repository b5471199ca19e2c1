"""Work that does not end by itself: its worker is killed, or its time is up."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from packhorse import JobFailed, current
from packhorse.engine.attempt import current_attempt
from packhorse.engine.worker import Settings, Worker
from packhorse.errors import WorkerStuck
from packhorse.telemetry.names import EventName
from tests.engine.factories import EventRecorder
from tests.features.factories import SECOND, run, until

LEASE = 1


async def test_s17_a_job_whose_worker_was_killed_is_finished_by_another(live, place, workers):
    first = await workers.start(queues="sits", lease=LEASE)
    job = await live.queue("sits").enqueue("sits")
    [[_, process, attempt]] = await place.until("begin")
    assert (process, attempt) == (str(first.pid), "1")
    second = await workers.start(queues="sits", lease=LEASE)

    first.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    assert await job.result(20) == "saved"
    assert time.monotonic() - killed < LEASE + 5
    assert place.lines("begin")[1:] == [["begin", str(second.pid), "2"]]
    info = await job.info()
    assert (info.attempt, info.lost) == (2, 1)


async def test_s17_a_job_is_done_only_after_its_handler_returned(live):
    running, go = asyncio.Event(), asyncio.Event()

    @live.task
    async def work() -> None:
        running.set()
        await go.wait()

    job = await work.enqueue()
    async with live.worker():
        await running.wait()
        assert await job.state() == "running"
        go.set()
        await job.result(20)
    assert await job.state() == "done"


async def test_s17_a_worker_asked_to_stop_lets_jobs_end_and_hands_back_those_that_do_not(live, place, workers):
    worker = await workers.start(queues=["sits", "slow"], lease=LEASE, grace=0.6)
    ends = await live.queue("slow").enqueue("slow", {"seconds": 0.2})
    does_not = await live.queue("sits").enqueue("sits")
    await place.until("begin", 2)

    worker.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(worker.wait(), 20) == 0
    assert await ends.state() == "done"
    info = await does_not.info()
    assert (info.state, info.attempt, info.lost) == ("ready", 0, 0)


async def test_s19_an_async_job_whose_time_is_up_is_stopped(live):
    stopped = asyncio.Event()

    @live.task(timeout=0.1, attempts=1)
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    job = await endless.enqueue()
    async with live.worker():
        with pytest.raises(JobFailed, match=r"TimeoutError: timed out after 0\.1 s"):
            await job.result(20)

    assert stopped.is_set()
    assert (await job.info()).reason == "exhausted"


async def test_s19_a_time_out_is_retried_like_any_other_failure(live):
    tried = []

    @live.task(timeout=0.05, backoff=None, attempts=2, retry_on=(TimeoutError,))
    async def slow_at_first() -> int:
        tried.append(current().attempt)
        if len(tried) == 1:
            await asyncio.Event().wait()
        return len(tried)

    job = await slow_at_first.enqueue()
    async with live.worker():
        assert await job.result(20) == 2


async def test_s19_a_sync_job_with_a_timeout_is_killed(live, place, workers):
    worker = await workers.start(queues="blocks", concurrency=2)
    jobs = [await live.queue("blocks").enqueue("blocks") for _ in range(2)]
    for job in jobs:
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.result(20)

    processes = {int(process) for _, process in place.lines("begin")}
    assert len(processes) == 2
    assert worker.pid not in processes
    assert place.lines("end") == []

    async def gone() -> bool:
        return not any(alive(process) for process in processes)

    await until(gone)


def test_s19_a_killable_task_in_the_script_that_is_started_says_what_to_do(tmp_path):
    script = """
        import asyncio
        from packhorse import App
        app = App("sqlite:///:memory:")
        @app.task(timeout=1)
        def work() -> None: ...
        asyncio.run(app.worker().run())
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    ran = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert 'in a module of their own, not in the script that is started, or say run="thread"' in ran.stderr


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_s19_in_a_thread_it_is_settled_and_its_slot_is_shown_as_stuck(live):
    recorder, go = EventRecorder(live.telemetry), threading.Event()

    @live.task(timeout=0.1, attempts=1, run="thread")
    def deaf() -> None:
        go.wait(20)

    job = await deaf.enqueue()
    settings = Settings(concurrency=1, patience=SECOND // 10, grace=0)
    worker = Worker(await live.store(), live.registry, settings, telemetry=live.telemetry)
    try:
        with pytest.raises(WorkerStuck):
            await worked_until_stuck(worker)
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.result(20)
        [reported] = recorder.of(EventName.THREAD_STUCK)
        assert reported["lease"].task == deaf.name
    finally:
        go.set()


async def worked_until_stuck(worker: Worker) -> None:
    """Work until every slot is stuck; the worker ends itself then."""
    async with worker:
        while not worker.stopping:
            await asyncio.sleep(0.01)


async def test_s19_a_thread_that_looks_stops_itself(live):
    seen = []

    @live.task(timeout=0.1, attempts=1, run="thread")
    def polite() -> None:
        try:
            while True:
                current_attempt().raise_if_stopped()
                time.sleep(0.01)
        finally:
            seen.append("stopped")

    job = await polite.enqueue()
    async with live.worker():
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.result(20)

    assert seen == ["stopped"]


async def test_s19_a_job_in_time_is_not_touched(app):
    @app.task(timeout="1h")
    async def quick() -> str:
        assert current_attempt().deadline is not None
        return "done"

    job = await quick.enqueue()
    await run(app)

    assert await job.result(1) == "done"
