"""What a side must be able to do, and the two ways in which jobs are sent: as fast as it goes, and at a steady pace."""

import asyncio
import inspect
import platform
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from benchmarks.sides import meter
from benchmarks.sides.order import Order

SETTLED_WITHIN = 10.0
PACE_WARM = 10


class Side:
    """A job system. The methods may be plain or async; ``many`` is left out where there is no bulk call."""

    many: Callable[[Sequence[int]], Any] | None = None

    def __init__(self, order: Order) -> None:
        self.order = order

    def setup(self) -> Any:
        """Make tables and the like; not measured."""

    def open(self) -> Any:
        """Connect; not measured."""

    def one(self, number: int, sent: float) -> Any:
        """Enqueue one no-op and return when the store has it."""
        raise NotImplementedError

    def left(self) -> Any:
        """How many jobs the store holds that have not ended."""
        raise NotImplementedError

    def close(self) -> Any:
        """Disconnect."""

    def work(self) -> None:
        """Be one worker until killed."""
        raise NotImplementedError

    def limits(self, seconds: float) -> Any:
        """What the store can do without a job system; only the side that is none knows."""
        raise NotImplementedError

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run a part; a side that cannot live with uvloop says so here."""
        return run(main)


async def setup(side: Side) -> dict[str, Any]:
    """Make the store ready."""
    await _maybe(side.setup())
    return {}


async def fill(side: Side) -> dict[str, Any]:
    """Enqueue the backlog: warm up, then one by one, then in bulk or many single calls together."""
    order = side.order
    if not order.prepared:
        await setup(side)
    await _maybe(side.open())
    first, second = order.warm, order.warm + order.one
    await _one_by_one(side, range(first))
    start = meter.read(order.server)
    await _one_by_one(side, range(first, second))
    middle = meter.read(order.server)
    await (_together if order.together else _in_bulk)(side, range(second, order.backlog))
    end = meter.read(order.server)
    await _maybe(side.close())
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        "one": meter.between(start, middle, order.one) if order.one else None,
        "together" if order.together else "bulk": meter.between(middle, end, order.bulk) if order.bulk else None,
    }


async def pace(side: Side) -> dict[str, Any]:
    """See that the store holds nothing more, then send jobs at a steady pace to the worker that now idles."""
    order = side.order
    await _maybe(side.open())
    until = time.monotonic() + SETTLED_WITHIN
    while left := await _maybe(side.left()):
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.01)
    if not left:
        await _steadily(side, order.rate, [(-1, False)] * PACE_WARM)
        await _steadily(side, order.rate, [(number, True) for number in range(order.paced)])
    await _maybe(side.close())
    return {"left": left}


async def left(side: Side) -> dict[str, Any]:
    """How many jobs the store holds that have not ended."""
    await _maybe(side.open())
    count = await _maybe(side.left())
    await _maybe(side.close())
    return {"left": count}


async def limits(side: Side) -> dict[str, Any]:
    """What the store can do by itself, metric by metric."""
    found: dict[str, Any] = await side.limits(side.order.seconds)
    return found


async def _one_by_one(side: Side, numbers: Sequence[int]) -> None:
    if inspect.iscoroutinefunction(side.one):
        for number in numbers:
            await side.one(number, 0.0)
    else:
        for number in numbers:
            side.one(number, 0.0)


async def _in_bulk(side: Side, numbers: Sequence[int]) -> None:
    if side.many is None:
        await _one_by_one(side, numbers)
        return
    for first in range(0, len(numbers), side.order.chunk):
        await _maybe(side.many(numbers[first : first + side.order.chunk]))


async def _together(side: Side, numbers: Sequence[int]) -> None:
    if inspect.iscoroutinefunction(side.one):
        await together(side, numbers, side.order.together)
    else:  # calls that block come one after the other
        await _one_by_one(side, numbers)


async def _steadily(side: Side, rate: float, jobs: Sequence[tuple[int, bool]]) -> None:
    begun = time.perf_counter()
    for turn, (number, timed) in enumerate(jobs):
        await asyncio.sleep(max(0.0, begun + turn / rate - time.perf_counter()))
        await _maybe(side.one(number, time.time() if timed else 0.0))


async def _maybe(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop where the environment has it: every async side does."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def together(side: Side, numbers: Sequence[int], most: int) -> None:
    """Enqueue with single calls, so many at once."""
    for first in range(0, len(numbers), most):
        await asyncio.gather(*[side.one(number, 0.0) for number in numbers[first : first + most]])
