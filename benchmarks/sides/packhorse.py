"""Packhorse as users get it: ``App``, ``task.enqueue``, ``app.enqueue``, ``app.worker``, all defaults."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.sides.body import asynchronous, synchronous
from benchmarks.sides.order import CHILDREN, DELAY, LANES, PADS, PRIORITIES, Order, given
from benchmarks.sides.side import Side, run
from packhorse import App, Call, Keep, Unique, group

app = App(given().url)


def registered(order: Order) -> Any:
    """The task that an order asks for."""
    if order.work == "thread":
        return app.task(name="noop", run="thread")(synchronous(order))
    if order.work == "cpu":
        return app.task(name="noop", run="process")(synchronous(order))
    if order.option == "transaction":
        return app.task(name="noop", transaction=True)(asynchronous(order))
    if order.option == "kept":
        return app.task(name="noop", keep_done=Keep(count=10**8))(asynchronous(order))
    body = asynchronous(order)
    if order.option in PADS:

        async def padded(n: int, t: float, pad: str) -> None:  # noqa: ARG001 - it is there to be carried
            await body(n, t)

        return app.task(name="noop")(padded)
    return app.task(name="noop")(body)


noop = registered(given())
OPTIONS: dict[str, Callable[[int], Any]] = {
    "lanes": lambda number: noop.using(key=f"lane-{number % LANES}"),
    "unique": lambda number: noop.using(unique=Unique(str(number), within="1h")),
    "priorities": lambda number: noop.using(priority=number % PRIORITIES),
    "delayed": lambda _: noop.using(delay=DELAY),
}
with_option = OPTIONS.get(given().option, lambda _: noop)
pad = (PADS[given().option],) if given().option in PADS else ()


class Here(Side):
    async def open(self) -> None:
        await app.open()

    async def one(self, number: int, sent: float) -> None:
        await with_option(number).enqueue(number, sent, *pad)

    async def many(self, numbers: Sequence[int]) -> None:
        if self.order.option == "children":
            parts = [numbers[first : first + CHILDREN] for first in range(0, len(numbers), CHILDREN)]
            await app.enqueue(*[group(*map(self._call, part)) for part in parts])
        else:
            await app.enqueue(*[self._call(number) for number in numbers])

    def _call(self, number: int) -> Call[None]:
        return with_option(number).call(number, 0.0, *pad)

    async def left(self) -> int:
        counts = await app.queue("default").counts()
        return sum(counts.values()) - counts["done"]

    async def close(self) -> None:
        await app.close()

    def work(self) -> None:
        concurrency = 2 if self.order.work == "cpu" else self.order.concurrency
        run(app.worker("default", concurrency=concurrency).run())
