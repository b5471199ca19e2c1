"""What a job does: the same for all sides, as an async function or as a plain one."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.sides.order import Order
from benchmarks.sides.tally import Tally

WAIT = 0.005
STEPS = 15_000  # about a millisecond of the interpreter


def asynchronous(order: Order) -> Callable[[int, float], Coroutine[Any, Any, None]]:
    """The job as an async function."""
    tally = Tally(order)

    async def noop(n: int, t: float) -> None:
        tally.hit(n, t)

    async def io(n: int, t: float) -> None:
        await asyncio.sleep(WAIT)
        tally.hit(n, t)

    async def cpu(n: int, t: float) -> None:
        compute()
        tally.hit(n, t)

    return {"io": io, "cpu": cpu}.get(order.work, noop)


def synchronous(order: Order) -> Callable[[int, float], None]:
    """The job as a plain function."""
    tally = Tally(order)

    def noop(n: int, t: float) -> None:
        tally.hit(n, t)

    def io(n: int, t: float) -> None:
        time.sleep(WAIT)
        tally.hit(n, t)

    def cpu(n: int, t: float) -> None:
        compute()
        tally.hit(n, t)

    return {"io": io, "cpu": cpu}.get(order.work, noop)


def compute() -> int:
    """Keep a core busy."""
    total = 0
    for number in range(STEPS):
        total += number & 7
    return total
