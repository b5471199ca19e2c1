"""Waiting for something to happen, for a time by the clock."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from packhorse.model.clock import Clock


class Bell:
    """Rung from the loop or from any thread; a ring nobody waited for is heard by the next who waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = self._called = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake who waits; from the loop's own thread."""
        self._rung = True
        if self._waiter is not None:
            _let_go(self._waiter)

    def ring_from_outside(self) -> None:
        """Wake who waits; from any thread. Many rings before the loop looks cost one hop."""
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._called = False
        self.ring()

    async def wait(self, duration: int | None = None) -> bool:
        """Wait for a ring, at most so long, and say whether there was one. One waits at a time."""
        if not self._rung and (duration is None or duration > 0):
            waiter = self._waiter = self._loop.create_future()
            timer = None if duration is None else self._loop.create_task(self._clock.sleep(duration))
            if timer is not None:  # its end may be told late, when somebody else waits
                timer.add_done_callback(lambda _: _let_go(waiter))
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _let_go(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


async def first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of several has happened, and give up the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
