"""Packhorse as users get it: ``App``, ``task.enqueue``, ``app.enqueue``, ``app.worker``, all defaults."""

from collections.abc import Sequence

from benchmarks.sides.order import given
from benchmarks.sides.side import Side, run
from benchmarks.sides.tally import Tally
from packhorse import App

app = App(given().url)
tally = Tally(given())


@app.task(name="noop")
async def noop(n: int, t: float) -> None:
    tally.hit(n, t)


class Here(Side):
    async def open(self) -> None:
        await app.open()

    async def one(self, number: int, sent: float) -> None:
        await noop.enqueue(number, sent)

    async def many(self, numbers: Sequence[int]) -> None:
        await app.enqueue(*[noop.call(number, 0.0) for number in numbers])

    async def left(self) -> int:
        counts = await app.queue("default").counts()
        return sum(counts.values()) - counts["done"]

    async def close(self) -> None:
        await app.close()

    def work(self) -> None:
        run(app.worker("default", concurrency=self.order.concurrency).run())
