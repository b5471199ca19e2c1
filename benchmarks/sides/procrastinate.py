"""procrastinate on PostgreSQL: a pool of 20, LISTEN and NOTIFY, jobs kept (its defaults)."""

import logging
from collections.abc import Sequence

import procrastinate  # type: ignore[import-not-found]
import psycopg

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side, run

LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
connector = procrastinate.PsycopgConnector(conninfo=given().url, min_size=4, max_size=20)
app = procrastinate.App(connector=connector)
noop = app.task(name="noop")(asynchronous(given()))


class Here(Side):
    async def setup(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def one(self, number: int, sent: float) -> None:
        await noop.defer_async(n=number, t=sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await noop.batch_defer_async(*[{"n": number, "t": 0.0} for number in numbers])

    def left(self) -> int:
        with psycopg.connect(self.order.url) as connection:
            return connection.execute(LEFT).fetchone()[0]  # type: ignore[index]

    async def close(self) -> None:
        await app.close_async()

    def work(self) -> None:
        logging.disable(logging.WARNING)
        run(self._work())

    async def _work(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=self.order.concurrency, fetch_job_polling_interval=1.0)
