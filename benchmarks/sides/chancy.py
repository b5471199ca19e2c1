"""chancy on PostgreSQL: its async executor, polls eagerly while there is work, notifications on, jobs kept."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from chancy import Chancy, Queue, Worker, job  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous, synchronous
from benchmarks.sides.order import DELAY, PRIORITIES, given
from benchmarks.sides.side import Side, run

LEFT = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed', 'expired')"
EXECUTORS = {"thread": "chancy.executors.thread.ThreadedExecutor", "cpu": "chancy.executors.process.ProcessExecutor"}
SIZES = {"thread": 8, "cpu": 2}
OPTIONS: dict[str, Callable[[Any, int], Any]] = {
    "priorities": lambda job, number: job.with_priority(number % PRIORITIES),
    "unique": lambda job, number: job.with_unique_key(str(number)),
    "delayed": lambda job, _: job.with_scheduled_at(datetime.now(UTC) + timedelta(seconds=DELAY)),
}
body, plain = asynchronous(given()), synchronous(given())


# It finds the function by the name of its module.
if given().work in EXECUTORS:

    @job(queue="bench")
    def noop(*, n: int, t: float) -> None:
        plain(n, t)

else:

    @job(queue="bench")
    async def noop(*, n: int, t: float) -> None:
        await body(n, t)


class Here(Side):
    async def setup(self) -> None:
        queue = Queue(
            name="bench",
            concurrency=SIZES.get(self.order.work, self.order.concurrency),
            executor=EXECUTORS.get(self.order.work, "chancy.executors.asyncex.AsyncExecutor"),
            polling_interval=1,
            eager_polling=True,
        )
        async with Chancy(self.order.url) as chancy:
            await chancy.migrate()
            await chancy.declare(queue, upsert=True)

    async def open(self) -> None:
        self.chancy = Chancy(self.order.url)
        await self.chancy.__aenter__()

    async def one(self, number: int, sent: float) -> None:
        await self.chancy.push(noop.job.with_kwargs(n=number, t=sent))

    async def many(self, numbers: Sequence[int]) -> None:
        with_option = OPTIONS.get(self.order.option, lambda job, _: job)
        jobs = [with_option(noop.job.with_kwargs(n=number, t=0.0), number) for number in numbers]
        async for _ in self.chancy.push_many(jobs, batch_size=len(jobs)):
            pass

    def left(self) -> int:
        with psycopg.connect(self.order.url) as connection:
            return connection.execute(LEFT).fetchone()[0]  # type: ignore[index]

    async def close(self) -> None:
        await self.chancy.__aexit__(None, None, None)

    def work(self) -> None:
        run(self._work())

    async def _work(self) -> None:
        async with Chancy(self.order.url) as chancy, Worker(chancy) as worker:
            await worker.wait_for_shutdown()
