"""arq on Redis: polls every 10 ms instead of 500, results kept for an hour (its default), msgpack."""

from collections.abc import Sequence
from typing import Any

import msgspec
from arq import create_pool  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]
from arq.constants import default_queue_name  # type: ignore[import-not-found]
from arq.worker import Worker, func  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side, run, together

CODEC = {"job_serializer": msgspec.msgpack.encode, "job_deserializer": msgspec.msgpack.decode}
body = asynchronous(given())


async def noop(_: Any, number: int, sent: float) -> None:
    await body(number, sent)


class Here(Side):
    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(self.order.url), **CODEC)

    async def one(self, number: int, sent: float) -> None:
        await self.pool.enqueue_job("noop", number, sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await together(self, numbers, 200)

    async def left(self) -> int:
        return await self.pool.zcard(default_queue_name)

    async def close(self) -> None:
        await self.pool.aclose()

    def work(self) -> None:
        run(self._work())

    async def _work(self) -> None:
        settings = RedisSettings.from_dsn(self.order.url)
        functions = [func(noop, name="noop")]
        worker = Worker(
            functions,
            redis_settings=settings,
            max_jobs=self.order.concurrency,
            poll_delay=0.01,
            handle_signals=False,
            **CODEC,
        )
        await worker.async_run()
