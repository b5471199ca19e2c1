"""Counts what happens to jobs, in a process of its own that may be killed and goes on where it was."""

import json
from collections import Counter
from pathlib import Path

from packhorse import App, Gap, JobEvent

EVENTS = ("enqueued", "done", "again", "dead", "lost")


class JobCounters:
    """Events by queue and name since the first start, with the position up to which they were counted.

    Both are one file, replaced in one step: a crash between counting and writing counts the same events again from the old
    figures, so each event counts once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        stored = json.loads(file.read_text()) if file.exists() else {"position": None, "counts": {}, "missed": 0}
        self.position: str | None = stored["position"]
        self.counts: Counter[str] = Counter(stored["counts"])
        self.missed: int = stored["missed"]

    def count(self, event: JobEvent | Gap) -> None:
        """Count an event, or the entries that a gap stands for."""
        if isinstance(event, Gap):
            self.missed += event.missed
        else:
            self.counts[f"{event.queue or 'unknown'} {event.name}"] += 1

    def save(self, position: str | None) -> None:
        """Write the figures and the position."""
        self.position = position
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"position": position, "counts": self.counts, "missed": self.missed}))
        new.replace(self._file)


async def count_events(app: App, counters: JobCounters, *, follow: bool = True) -> None:
    """Count events from where the counters stand, until cancelled; without ``follow`` until the end of the log."""
    async with app.events(*EVENTS, after=counters.position or "earliest", follow=follow) as events:
        async for event in events:
            counters.count(event)
            counters.save(events.position)
