"""What people write about work: handlers, queues, workers, retries. Never run: mypy and pyright find no error in it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, assert_type

from packhorse import (
    App,
    AppWorker,
    Backoff,
    Batch,
    Call,
    Cancel,
    Context,
    Job,
    JobHandle,
    JobState,
    Keep,
    Message,
    Queue,
    Retry,
    Snooze,
    Unique,
    chain,
    constant,
    correlated,
    current,
    exponential,
    retrying,
)

app = App("sqlite:///:memory:")


@app.task
def log(line: str) -> None:
    current().log.info(line)


@app.task
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task
async def length(content: bytes) -> int:
    return len(content)


# -- inside a handler


@app.task
async def import_rows(rows: list[str]) -> int:
    ctx = current()
    assert_type(ctx, Context)
    for row in ctx.track(rows):
        assert_type(row, str)
        ctx.emit({"row": row})
    ctx.progress(50, "half")
    ctx.log.info("half")
    assert_type(ctx.attempt, int)
    assert_type(ctx.tenant, str | None)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.fence, int)
    assert_type(ctx.enqueued_at, datetime)
    assert_type(ctx.cancelled, bool)
    ctx.enqueue(log.call("imported"), chain(fetch.call("http://a"), length))
    if not rows:
        raise Snooze("5m")
    if len(rows) > 1000:
        raise Retry("20s")
    if ctx.tenant is None:
        raise Cancel("nobody's")
    return len(rows)


# -- queues


emails = app.queue("email", attempts=3, backoff=exponential(2), keep_done=Keep(10, "24h"), keep_dead=50, per_key=1)


@emails.handler
async def process(job: Job) -> Any:
    match job.task:
        case "send-welcome":
            return job.data
        case _:
            return await fetch.enqueue(job.id)


@app.queue("plain").handler
def process_plainly(job: Job) -> str:
    return f"{current().attempt} {job.task}"


@emails.batch(size=10, wait="5s")
async def process_many(batch: Batch) -> None:
    for message in batch:
        assert_type(message, Message)
        message.done()
    assert_type(batch[0], Message)
    assert_type(batch[1:], Sequence[Message])
    batch[0].retry("20s")
    batch[-1].dead("why")


async def queues_are_steered() -> None:
    assert_type(emails, Queue)
    assert_type(await emails.enqueue("send-welcome", {"user_id": "abc"}, delay="1h"), JobHandle[Any])
    assert_type(emails.call("send-welcome", priority=1, unique="5s"), Call[Any])
    await emails.pause()
    await emails.resume()
    assert_type(await emails.counts(), dict[str, int])
    assert_type(await emails.cancel_pending(), int)
    assert_type(await emails.purge(), int)


async def handlers_stay_what_they_were(job: Job, batch: Batch) -> None:
    assert_type(await process_many(batch), None)
    assert_type(process_plainly(job), str)
    await process(job)


# -- workers


async def workers_run_beside_other_code() -> None:
    async with app, app.worker("email", concurrency=5) as worker:
        assert_type(worker, AppWorker)
        assert_type(worker.running, tuple[Context, ...])
        worker.stop()
        await worker.stopped()
    async with app.worker(
        {"critical": 6, "default": 3}, queue_concurrency={"critical": 5}, lease="30s", grace=10, name="one"
    ):
        pass
    await app.worker(["email", "default"]).run()
    await app.worker().run()


async def jobs_are_found() -> None:
    async for found in app.jobs(state="dead", task="send", header=("shop", "north")):
        assert_type(found, Job)
    assert_type(app.job("0190b0d0-0000-7000-8000-000000000000"), JobHandle[Any])
    page = await app.find(queue="email", state="dead", tenant="t1", header=("source", "shop"), limit=10)
    for job in page.items:
        assert_type(job, Job)
    assert_type(page.cursor, str | None)
    await app.find(state=JobState.RUNNING, enqueued_after=datetime.now(UTC), cursor=page.cursor)


# -- the same rules around one call


async def download(url: str) -> bytes:
    return url.encode()


def measure(word: str) -> int:
    return len(word)


async def retrying_gives_what_the_function_gives() -> None:
    assert_type(await retrying(download, "http://a", attempts=3), bytes)
    assert_type(await retrying(measure, "word", backoff=exponential(2), retry_on=(OSError,), dead_on=()), int)
    assert_type(await retrying(measure, word="word"), int)
    assert_type(await retrying(lambda: download("http://a"), attempts=3), bytes)
    assert_type(await retrying(partial(measure, "word"), attempts=3), int)
    assert_type(await retrying(fetch, "http://a"), bytes)
    assert_type(await retrying(log, "line"), None)


# -- values


def values_are_what_they_say() -> None:
    assert_type(exponential(), Backoff)
    assert_type(exponential("2s", cap=None, jitter=0), Backoff)
    assert_type(constant(timedelta(seconds=1)), Backoff)
    assert_type(Keep(), Keep)
    assert_type(Keep(10, "24h").count, int | None)
    assert_type(Unique(within=5), Unique)
    with correlated("request-1"):
        pass
