"""celery on Redis: its solo pool, the fastest of its pools for a no-op, early acknowledgement (its default), no results."""

import os
import sys

from celery import Celery  # type: ignore[import-not-found]

from benchmarks.sides.body import synchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side

POOLS = {"thread": ("threads", "8"), "io": ("threads", "100"), "cpu": ("prefork", "2")}

app = Celery("bench", broker=given().url)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    task_default_delivery_mode="transient",
    worker_hijack_root_logger=False,
    task_serializer="json",
)
noop = app.task(name="noop")(synchronous(given()))


class Here(Side):
    def one(self, number: int, sent: float) -> None:
        noop.apply_async((number, sent))

    def left(self) -> int:
        with app.connection_for_read() as connection:
            client = connection.default_channel.client
            return client.llen("celery") + client.hlen("unacked")

    def work(self) -> None:
        pool, size = POOLS.get(self.order.work, ("solo", "1"))
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.sides.celery", "worker", "-P", pool, "-c", size]
        os.execv(sys.executable, [*command, "-n", f"w{os.getpid()}@bench", *quiet])
