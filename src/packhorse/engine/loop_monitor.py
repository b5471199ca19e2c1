"""Notices from outside that an event loop stands still, says which attempt holds it, and calls for relief."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable

from packhorse.engine.attempt import Attempt
from packhorse.model.clock import Clock
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

CHECK_EVERY_US = 250_000
BLOCKED_US = 1_000_000


class LoopMonitor:
    """Made on the loop it watches; runs on another."""

    def __init__(
        self,
        running_in: Callable[["asyncio.Task[object] | None"], Attempt | None],
        *,
        clock: Clock,
        telemetry: Telemetry,
        patience: int,
    ) -> None:
        self._running_in, self._clock, self._telemetry = running_in, clock, telemetry
        self._patience = patience
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._answered = 0

    async def run(self, relieve: Callable[[], Awaitable[None]]) -> None:
        """Probe the loop. While it does not answer, report it once and call ``relieve`` each time the patience is over."""
        while True:
            asked = self._clock.steady()
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                return  # the loop is closed
            await self._clock.sleep(CHECK_EVERY_US)
            reported, relief = False, asked + self._patience
            while self._answered < asked:
                now = self._clock.steady()
                if not reported and now - asked >= BLOCKED_US:
                    reported = True
                    self._report(now - asked)
                if now >= relief:
                    relief = now + self._patience
                    await relieve()
                await self._clock.sleep(CHECK_EVERY_US)

    def _answer(self) -> None:
        self._answered = self._clock.steady()

    def _report(self, lag: int) -> None:
        attempt = self._running_in(asyncio.current_task(self._loop))
        frame = sys._current_frames().get(self._thread)
        where = traceback.extract_stack(frame)[-1] if frame is not None else None
        line = f"{where.filename}:{where.lineno} in {where.name}" if where is not None else "unknown"
        self._telemetry.emit(
            EventName.LOOP_BLOCKED, lease=attempt.lease if attempt else None, duration=lag, detail=line
        )
