"""The status line of a worker at the foot of a terminal."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from packhorse.app_worker import AppWorker
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import EventName

REFRESH_EVERY_US = limits.SECOND // 4
RATE_SAMPLES = 12  # refreshes that the rate is measured over
SHOWN = (EventName.DONE, EventName.RETRYING, EventName.DEAD, EventName.CANCELLED, EventName.LOST)


class StatusLine:
    """Counts how attempts ended, and formats the line once there is a worker."""

    def __init__(self) -> None:
        self.worker: AppWorker | None = None
        self._counts: Counter[EventName] = Counter()
        self._samples = [(SYSTEM.steady(), 0)]

    def count(self, name: EventName, fields: Fields) -> None:  # noqa: ARG002
        """Count one event."""
        self._counts[name] += 1

    @property
    def totals(self) -> str:
        """The number of attempts by how they ended."""
        parts = [
            f"{self._counts[name]:,} {name.value}" for name in SHOWN if self._counts[name] or name is EventName.DONE
        ]
        return " · ".join(parts)

    def line(self) -> Text:
        """Format the line."""
        worker = self.worker
        return Text("starting") if worker is None else Text(" · ".join(self._parts(worker)), style="bold")

    def _parts(self, worker: AppWorker) -> list[str]:
        done, now = self._counts[EventName.DONE], SYSTEM.steady()
        self._samples = [*self._samples[-RATE_SAMPLES:], (now, done)]
        then, before = self._samples[0]
        rate = (done - before) * limits.SECOND / max(1, now - then)
        slots = f"running {len(worker.running)}/{worker.settings.concurrency}"
        parts = [f"stopping, {slots}" if worker.stopping else slots, f"{rate:,.0f} done/s"]
        parts.append(self.totals)
        silent = worker.silence
        if silent > 5 * limits.SECOND:
            parts.append(f"no answer from the store for {silent // limits.SECOND} s")
        return parts


@asynccontextmanager
async def show_status(telemetry: Telemetry, console: Console) -> AsyncIterator[StatusLine]:
    """Show the line and refresh it inside the block."""
    status = StatusLine()
    unsubscribe = telemetry.on(status.count, *SHOWN)
    # Output of jobs is drawn above the line only if it goes to the same terminal.
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()) as live:
        drawing = asyncio.create_task(_refresh(live, status), name="packhorse-live")
        try:
            yield status
        finally:
            drawing.cancel()
            await asyncio.wait([drawing])
            unsubscribe()
    console.print(f"stopped: {status.totals}")


async def _refresh(live: Live, status: StatusLine) -> None:
    while True:
        line = status.line()
        line.truncate(live.console.width, overflow="ellipsis")
        live.update(line, refresh=True)
        await SYSTEM.sleep(REFRESH_EVERY_US)
