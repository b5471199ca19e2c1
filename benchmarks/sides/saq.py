"""saq on Redis: results kept for ten minutes (its default), orjson, as many at once as asked for."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson  # type: ignore[import-not-found]
from saq import Queue, Worker  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous, synchronous
from benchmarks.sides.order import Order, given
from benchmarks.sides.side import Side, run

body, plain = asynchronous(given()), synchronous(given())


async def noop(_: Any, *, n: int, t: float) -> None:
    await body(n, t)


def sync_noop(_: Any, *, n: int, t: float) -> None:
    plain(n, t)


class Here(Side):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.queue = Queue.from_url(order.url, dump=orjson.dumps, load=orjson.loads, max_concurrent_ops=100)

    async def open(self) -> None:
        await self.queue.connect()

    async def one(self, number: int, sent: float) -> None:
        await self.queue.enqueue("noop", n=number, t=sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await asyncio.gather(*[self.one(number, 0.0) for number in numbers])

    async def left(self) -> int:
        return await self.queue.count("incomplete") + await self.queue.count("active")

    async def close(self) -> None:
        await self.queue.disconnect()

    def work(self) -> None:
        run(self._work())

    async def _work(self) -> None:
        await self.queue.connect()
        await Worker(
            self.queue,
            functions=[("noop", sync_noop if self.order.work == "thread" else noop)],
            concurrency=self.order.concurrency,
        ).start()
