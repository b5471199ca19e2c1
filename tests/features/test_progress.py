"""Where a job stands and how far it is, by its id, from anywhere."""

import asyncio
import threading

import pytest

from packhorse import InvalidInput, Job, JobNotFound, JobState, Progress, current
from packhorse.model.ids import id_text, new_id
from tests.features.factories import SECOND, run, until


async def test_s32_progress_is_read_while_the_job_runs(live, make):
    reported, seen = asyncio.Queue(), asyncio.Queue()

    @live.task
    async def work() -> None:
        for percent in (10, 50, 100):
            current().progress(percent, f"{percent} of 100")
            reported.put_nowait(percent)
            await seen.get()

    other = make()
    job = other.job((await work.enqueue()).id)
    assert await job.progress() is None
    polled = []
    async with live.worker():
        for _ in range(3):
            percent = await reported.get()

            async def there(percent: int = percent) -> bool:
                now = await job.progress()
                return now is not None and now.percent == percent

            await until(there)
            polled.append(await job.progress())
            seen.put_nowait(None)
        await job.result(20)

    assert polled == [Progress(percent, f"{percent} of 100") for percent in (10, 50, 100)]


async def test_s32_progress_from_a_thread_and_by_tracking(live):
    half_way, go = threading.Event(), threading.Event()

    @live.task
    def work() -> None:
        for number in current().track(range(10)):
            if number == 5:
                half_way.set()
                go.wait(20)

    job = await work.enqueue()
    async with live.worker():
        await asyncio.to_thread(half_way.wait, 20)

        async def half() -> bool:
            now = await job.progress()
            return now is not None and (now.percent, now.message) == (50, "5 of 10")

        await until(half)
        go.set()
        await job.result(20)


async def test_s32_tracking_goes_through_what_has_no_length(app):
    seen = []

    @app.task
    async def work() -> None:
        seen.extend(current().track(iter("abc")))
        seen.extend(current().track(iter("def"), total=3))

    await work.enqueue()
    await run(app)

    assert seen == list("abcdef")


async def test_s32_progress_outside_its_range_is_refused(app):
    refused = []

    @app.task
    async def work() -> None:
        for wrong in (-1, 101):
            try:
                current().progress(wrong)
            except InvalidInput:
                refused.append(wrong)

    await work.enqueue()
    await run(app)

    assert refused == [-1, 101]


async def test_s35_every_state_is_seen_by_id(app, make, clock):
    other, running, go = make(clock=clock), asyncio.Event(), asyncio.Event()

    @app.task(name="good", keep_done=0)
    async def good() -> None: ...

    @app.task(name="bad", attempts=1)
    async def bad() -> None:
        raise ValueError("no")

    @app.task(name="slow")
    async def slow() -> None:
        running.set()
        await go.wait()

    async def seen(job) -> JobState:
        return await other.job(job.id).state()

    later = await good.using(delay="1h").enqueue()
    ready, failing = await good.enqueue(), await bad.enqueue()
    unroutable, off = await app.queue("default").enqueue("nobody"), await good.enqueue()
    long = await slow.enqueue()
    assert [await seen(job) for job in (later, ready)] == [JobState.SCHEDULED, JobState.READY]
    assert await off.cancel() == "cancelled"
    working = asyncio.create_task(run(app))
    await running.wait()
    assert await seen(long) == JobState.RUNNING
    go.set()
    await working

    ends = [await seen(job) for job in (ready, failing, unroutable, off, long)]
    assert ends == ["done", "dead", "waiting", "cancelled", "done"]
    clock.turn(SECOND)
    await (await app.store()).jobs.prune(500)
    assert await seen(ready) == JobState.UNKNOWN


async def test_s35_an_id_that_was_never_there_is_unknown(app):
    job = app.job(id_text(new_id()))

    assert await job.state() == "unknown"
    assert await job.cancel() == "unknown"
    assert await job.promote() is False
    for ask in (job.info, job.progress, job.result):
        with pytest.raises(JobNotFound):
            await ask()


async def test_s35_all_that_is_known_of_a_job(app):
    @app.task(name="work", queue="orders")
    async def work(number: int) -> int:
        return number

    job = await work.using(key="k", tenant="t1", user="u1", priority=3, headers={"a": 1}, id="w:1").enqueue(7)
    info: Job = await job.info()

    assert (info.id, info.task, info.queue, info.priority) == (job.id, "work", "orders", 3)
    assert (info.key, info.tenant, info.user, info.chosen_id) == ("k", "t1", "u1", "w:1")
    assert (info.data, info.headers["a"], info.attempt, info.lost) == ({"number": 7}, 1, 0, 0)
    assert (info.failures, info.reason, info.cancelling, info.ended) == ((), None, False, False)
    assert job.id in repr(info)
