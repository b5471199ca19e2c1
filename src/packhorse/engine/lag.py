"""Notices from outside that an event loop stands still, says which attempt holds it, and calls for relief."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable

from packhorse.engine.context import Context
from packhorse.model.clock import Clock
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

EVERY = 250_000
BLOCKED = 1_000_000


class Lag:
    """Made on the loop it watches; runs on another."""

    def __init__(
        self,
        running_in: Callable[["asyncio.Task[object] | None"], Context | None],
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
        """Knock now and then. When nobody answers tell it once, and call for relief each time the patience is over."""
        while True:
            asked = self._clock.steady()
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                return  # the loop is closed
            await self._clock.sleep(EVERY)
            told, relief = False, asked + self._patience
            while self._answered < asked:
                now = self._clock.steady()
                if not told and now - asked >= BLOCKED:
                    told = True
                    self._tell(now - asked)
                if now >= relief:
                    relief = now + self._patience
                    await relieve()
                await self._clock.sleep(EVERY)

    def _answer(self) -> None:
        self._answered = self._clock.steady()

    def _tell(self, lag: int) -> None:
        ctx = self._running_in(asyncio.current_task(self._loop))
        frame = sys._current_frames().get(self._thread)
        where = traceback.extract_stack(frame)[-1] if frame is not None else None
        line = f"{where.filename}:{where.lineno} in {where.name}" if where is not None else "unknown"
        self._telemetry.emit(Name.LOOP_BLOCKED, lease=ctx.lease if ctx else None, duration=lag, detail=line)
