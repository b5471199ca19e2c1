"""dramatiq on Redis: one process of eight threads (its default), no results."""

import os
import sys

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from benchmarks.sides.order import given
from benchmarks.sides.side import Side
from benchmarks.sides.tally import Tally

redis = RedisBroker(url=given().url)
dramatiq.set_broker(redis)
tally = Tally(given())


@dramatiq.actor(actor_name="noop")
def noop(n: int, t: float) -> None:
    tally.hit(n, t)


class Here(Side):
    def one(self, number: int, sent: float) -> None:
        noop.send(number, sent)

    def left(self) -> int:
        # Messages stay in this hash until they are acknowledged.
        return redis.client.hlen("dramatiq:default.msgs")

    def work(self) -> None:
        command = [sys.executable, "-m", "dramatiq", "benchmarks.sides.dramatiq", "--processes", "1", "--threads", "8"]
        os.execv(sys.executable, command)
