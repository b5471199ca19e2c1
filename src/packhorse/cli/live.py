"""One line at the foot of a terminal: what a worker does, as it tells it itself."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from packhorse.engine.worker import Worker
from packhorse.model import caps
from packhorse.model.clock import SYSTEM
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import Name

EVERY = caps.SECOND // 4
OVER = 12  # a rate is that of the last so many looks
SHOWN = (Name.DONE, Name.AGAIN, Name.DEAD, Name.CANCELLED, Name.LOST)


class Summary:
    """Counts what is told of attempts and puts it in a line, once there is a worker."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self._counts: Counter[Name] = Counter()
        self._looks = [(SYSTEM.steady(), 0)]

    def hear(self, name: Name, fields: Fields) -> None:  # noqa: ARG002
        """Count one."""
        self._counts[name] += 1

    @property
    def totals(self) -> str:
        """What has come of how many attempts."""
        told = [f"{self._counts[name]:,} {name.value}" for name in SHOWN if self._counts[name] or name is Name.DONE]
        return " · ".join(told)

    def line(self) -> Text:
        """The line at this moment."""
        worker = self.worker
        return Text("starting") if worker is None else Text(" · ".join(self._parts(worker)), style="bold")

    def _parts(self, worker: Worker) -> list[str]:
        done, now = self._counts[Name.DONE], SYSTEM.steady()
        self._looks = [*self._looks[-OVER:], (now, done)]
        then, before = self._looks[0]
        rate = (done - before) * caps.SECOND / max(1, now - then)
        slots = f"running {len(worker.running)}/{worker.settings.concurrency}"
        parts = [f"stopping, {slots}" if worker.stopping else slots, f"{rate:,.0f} done/s"]
        parts.append(self.totals)
        silent = worker.silence
        if silent > 5 * caps.SECOND:
            parts.append(f"no word from the store for {silent // caps.SECOND} s")
        return parts


@asynccontextmanager
async def living(telemetry: Telemetry, console: Console) -> AsyncIterator[Summary]:
    """Keep the line up to date meanwhile."""
    summary = Summary()
    off = telemetry.on(summary.hear, *SHOWN)
    # What jobs print stays where it belongs if that is not the same terminal.
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()) as live:
        drawing = asyncio.create_task(_draw(live, summary), name="packhorse-live")
        try:
            yield summary
        finally:
            drawing.cancel()
            await asyncio.wait([drawing])
            off()
    console.print(f"stopped: {summary.totals}")


async def _draw(live: Live, summary: Summary) -> None:
    while True:
        line = summary.line()
        line.truncate(live.console.width, overflow="ellipsis")
        live.update(line, refresh=True)
        await SYSTEM.sleep(EVERY)
