"""DBOS on PostgreSQL: a workflow without steps, its queue polled every 0.1 s, a pool of 20."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any

import psycopg
from dbos import DBOS  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side, together

LEFT = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
CONFIG = {
    "name": "bench",
    "system_database_url": given().url,
    "sys_db_pool_size": 20,
    "log_level": "ERROR",
    "run_admin_server": False,
    "application_version": "1",
    "use_listen_notify": True,
}
noop = DBOS.workflow(name="noop")(asynchronous(given()))


class Here(Side):
    async def setup(self) -> None:
        DBOS(config=CONFIG)
        DBOS.launch()
        await DBOS.register_queue_async("bench", worker_concurrency=self.order.concurrency, polling_interval_sec=0.1)
        DBOS.destroy()

    async def open(self) -> None:
        DBOS(config=CONFIG)
        DBOS.listen_queues(["none"])
        DBOS.launch()

    async def one(self, number: int, sent: float) -> None:
        await DBOS.enqueue_workflow_async("bench", noop, number, sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await together(self, numbers, 100)

    def left(self) -> int:
        with psycopg.connect(self.order.url) as connection:
            return connection.execute(LEFT).fetchone()[0]  # type: ignore[index]

    async def close(self) -> None:
        DBOS.destroy()

    def work(self) -> None:
        self.run(self._work())

    async def _work(self) -> None:
        DBOS(config={**CONFIG, "executor_id": f"worker-{os.getpid()}"})
        DBOS.launch()
        await asyncio.Event().wait()

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(main)
