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
        self._rung = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._called = False

    def ring(self) -> None:
        """Wake who waits; from the loop's own thread."""
        self._rung.set()

    def ring_from_outside(self) -> None:
        """Wake who waits; from any thread. Many rings before the loop looks cost one hop."""
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._called = False
        self._rung.set()

    async def wait(self, duration: int | None = None) -> bool:
        """Wait for a ring, at most so long, and say whether there was one."""
        if not self._rung.is_set():
            if duration is None:
                await self._rung.wait()
            elif duration > 0:
                await first(self._rung.wait(), self._clock.sleep(duration))
        rung = self._rung.is_set()
        self._rung.clear()
        return rung


async def first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of several has happened, and give up the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
