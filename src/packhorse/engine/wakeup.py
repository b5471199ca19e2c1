"""Waiting for something to happen, for a time by the clock."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from packhorse.model.clock import Clock


class Wakeup:
    """An event that clears itself: set from the loop or from any thread, it ends the current wait or else the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_set = self._called = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        """End the wait; from the loop's own thread."""
        self._is_set = True
        if self._waiter is not None:
            _resolve(self._waiter)

    def set_threadsafe(self) -> None:
        """End the wait; from any thread. Many calls before the loop runs cost one hop."""
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._called = False
        self.set()

    async def wait(self, duration: int | None = None) -> bool:
        """Wait until it is set, at most ``duration``, and answer whether it was. Only one caller waits at a time."""
        if not self._is_set and (duration is None or duration > 0):
            waiter = self._waiter = self._loop.create_future()
            timer = None if duration is None else self._loop.create_task(self._clock.sleep(duration))
            if timer is not None:  # its callback may run late, during another wait
                timer.add_done_callback(lambda _: _resolve(waiter))
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set


def _resolve(waiter: "asyncio.Future[None]") -> None:
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
