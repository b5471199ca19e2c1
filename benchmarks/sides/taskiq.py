"""taskiq on Redis: a list (taken out before it runs, no results), or a stream (acknowledged, results for ten minutes)."""

import os
import sys
from collections.abc import Sequence

import redis.asyncio
from taskiq.serializers import ORJSONSerializer  # type: ignore[import-not-found]
from taskiq_redis import (  # type: ignore[import-not-found]
    ListQueueBroker,
    RedisAsyncResultBackend,
    RedisStreamBroker,
)

from benchmarks.sides.body import asynchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side, together

STREAM, URL = given().options["stream"], given().url

if STREAM:
    results = RedisAsyncResultBackend(URL, result_ex_time=600)
    broker = RedisStreamBroker(URL, consumer_id="0", xread_count=100).with_result_backend(results)
else:
    broker = ListQueueBroker(URL)
broker = broker.with_serializer(ORJSONSerializer())
noop = broker.task(task_name="noop")(asynchronous(given()))


class Here(Side):
    async def open(self) -> None:
        await broker.startup()

    async def one(self, number: int, sent: float) -> None:
        await noop.kiq(number, sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await together(self, numbers, 100)

    async def left(self) -> int:
        client = redis.asyncio.from_url(URL)
        try:
            if STREAM:  # what was acknowledged stays in the stream: in work, and what nobody has got yet
                [group] = await client.xinfo_groups("taskiq")
                after = group["last-delivered-id"].decode()
                return group["pending"] + len(await client.xrange("taskiq", min=f"({after}") or ())
            return await client.llen("taskiq")
        finally:
            await client.aclose()

    async def close(self) -> None:
        await broker.shutdown()

    def work(self) -> None:
        most = str(self.order.concurrency)
        limits = [
            "--workers",
            "1",
            "--max-async-tasks",
            most,
            "--max-prefetch",
            most,
            "--no-parse",
            "--log-level",
            "WARNING",
        ]
        os.execv(sys.executable, [sys.executable, "-m", "taskiq", "worker", "benchmarks.sides.taskiq:broker", *limits])
