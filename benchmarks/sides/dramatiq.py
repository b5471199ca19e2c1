"""dramatiq on Redis: one process of eight threads (its default), no results."""

import os
import sys

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from benchmarks.sides.body import synchronous
from benchmarks.sides.order import DELAY, given
from benchmarks.sides.side import Side

THREADS = {"io": given().concurrency, "cpu": 1}
PROCESSES = {"cpu": 2}

redis = RedisBroker(url=given().url)
dramatiq.set_broker(redis)
noop = dramatiq.actor(synchronous(given()), actor_name="noop")


class Here(Side):
    def one(self, number: int, sent: float) -> None:
        delay = 1000 * DELAY if self.order.option == "delayed" else None
        noop.send_with_options(args=(number, sent), delay=delay)

    def left(self) -> int:
        # Messages stay in this hash until they are acknowledged.
        return redis.client.hlen("dramatiq:default.msgs")

    def work(self) -> None:
        work = self.order.work
        sizes = ["--processes", str(PROCESSES.get(work, 1)), "--threads", str(THREADS.get(work, 8))]
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "benchmarks.sides.dramatiq", *sizes])
