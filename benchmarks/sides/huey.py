"""huey on SQLite or Redis: one thread, no results; ``fsync`` says whether a commit of SQLite waits for the disk."""

import logging
from pathlib import Path
from typing import Any

from huey import RedisHuey, SqliteHuey  # type: ignore[import-not-found]
from huey.consumer import Consumer  # type: ignore[import-not-found]

from benchmarks.sides.body import synchronous
from benchmarks.sides.order import DELAY, PRIORITIES, given
from benchmarks.sides.side import Side

WORKERS = {"io": given().concurrency, "cpu": 2}
FILE = given().url.startswith("sqlite:///")

if FILE:
    path = Path(given().url.removeprefix("sqlite:///"))
    huey = SqliteHuey("bench", filename=str(path), results=False, fsync=given().options["fsync"])
else:
    huey = RedisHuey("bench", url=given().url, results=False)
noop = huey.task(name="noop")(synchronous(given()))


def with_option(number: int) -> dict[str, Any]:
    """What an option says about a job."""
    match given().option:
        case "priorities":
            return {"priority": number % PRIORITIES}
        case "delayed":
            return {"delay": DELAY}
    return {}


class Here(Side):
    def one(self, number: int, sent: float) -> None:
        noop(number, sent, **with_option(number))

    def left(self) -> int:
        return huey.storage.queue_size() + huey.storage.schedule_size()

    def work(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        # On SQLite it polls: 10 ms is the best of its settings for latency that does not burn a core.
        most = 0.01 if FILE else 0.1
        workers, kind = WORKERS.get(self.order.work, 1), "process" if self.order.work == "cpu" else "thread"
        consumer = Consumer(
            huey, workers=workers, worker_type=kind, periodic=False, initial_delay=0.01, max_delay=most, backoff=1.0
        )
        consumer.run()
