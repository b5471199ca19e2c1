"""rq on Redis: its worker that does not fork for each job, results kept for 500 seconds (its default)."""

from collections.abc import Sequence

from redis import Redis
from rq import Queue, SimpleWorker  # type: ignore[import-not-found]
from rq.registry import StartedJobRegistry  # type: ignore[import-not-found]

from benchmarks.sides.body import synchronous
from benchmarks.sides.order import given
from benchmarks.sides.side import Side

TASK = "benchmarks.sides.rq.noop"
noop = synchronous(given())


class Here(Side):
    def open(self) -> None:
        self.queue = Queue("bench", connection=Redis.from_url(self.order.url))

    def one(self, number: int, sent: float) -> None:
        self.queue.enqueue(TASK, number, sent)

    def many(self, numbers: Sequence[int]) -> None:
        self.queue.enqueue_many([Queue.prepare_data(TASK, (number, 0.0)) for number in numbers])

    def left(self) -> int:
        return self.queue.count + StartedJobRegistry(queue=self.queue).count

    def work(self) -> None:
        connection = Redis.from_url(self.order.url)
        SimpleWorker([Queue("bench", connection=connection)], connection=connection).work(logging_level="WARNING")
