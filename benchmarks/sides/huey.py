"""huey on SQLite: one thread, no results; ``fsync`` says whether a commit waits for the disk."""

import logging
from pathlib import Path

from huey import SqliteHuey  # type: ignore[import-not-found]
from huey.consumer import Consumer  # type: ignore[import-not-found]

from benchmarks.sides.order import given
from benchmarks.sides.side import Side
from benchmarks.sides.tally import Tally

huey = SqliteHuey(
    "bench", filename=str(Path(given().url.removeprefix("sqlite:///"))), results=False, fsync=given().options["fsync"]
)
tally = Tally(given())


@huey.task()
def noop(n: int, t: float) -> None:
    tally.hit(n, t)


class Here(Side):
    def one(self, number: int, sent: float) -> None:
        noop(number, sent)

    def left(self) -> int:
        return huey.storage.queue_size()

    def work(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        # It polls: 10 ms is the best of its settings for latency that does not burn a core.
        Consumer(huey, workers=1, periodic=False, initial_delay=0.01, max_delay=0.01, backoff=1.0).run()
