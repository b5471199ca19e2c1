"""streaq on Redis: as many at once and ahead as asked for, results kept for five minutes (its default), pickle (its default)."""

import logging
import pickle
from collections.abc import Sequence

from streaq import Worker  # type: ignore[import-not-found]

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side

logging.getLogger("streaq").setLevel(logging.ERROR)
worker = Worker(
    redis_url=given().url,
    concurrency=given().concurrency,
    prefetch=given().concurrency,
    serializer=pickle.dumps,
    anyio_kwargs={"use_uvloop": True},
)
noop = worker.task(name="noop", silent=True)(asynchronous(given()))


class Here(Side):
    async def open(self) -> None:
        await worker.__aenter__()

    async def one(self, number: int, sent: float) -> None:
        await noop.enqueue(number, sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await worker.enqueue_many([noop.enqueue(number, 0.0) for number in numbers])

    async def left(self) -> int:
        return await worker.queue_size()

    async def close(self) -> None:
        await worker.__aexit__(None, None, None)

    def work(self) -> None:
        worker.run_sync()
