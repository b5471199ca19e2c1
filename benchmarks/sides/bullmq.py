"""BullMQ for Python on Redis: completed jobs and their results kept, its stream of events on (both defaults)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from bullmq import Queue, Worker  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side, run

body = asynchronous(given())


async def noop(job: Any, _: str) -> None:
    await body(job.data["n"], job.data["t"])


class Here(Side):
    async def open(self) -> None:
        self.queue = Queue("bench", {"connection": self.order.url})

    async def one(self, number: int, sent: float) -> None:
        await self.queue.add("noop", {"n": number, "t": sent})

    async def many(self, numbers: Sequence[int]) -> None:
        await self.queue.addBulk([{"name": "noop", "data": {"n": number, "t": 0.0}} for number in numbers])

    async def left(self) -> int:
        counts = await self.queue.getJobCounts("waiting", "active")
        return sum(counts.values())

    async def close(self) -> None:
        await self.queue.close()

    def work(self) -> None:
        run(self._work())

    async def _work(self) -> None:
        # Of 10, 20, 30 and 100 at once, 20 was the fastest; waiting jobs need as many as asked for.
        most = self.order.concurrency if self.order.work == "io" else 20
        self.worker = Worker("bench", noop, {"connection": self.order.url, "concurrency": most})
        await asyncio.Event().wait()
