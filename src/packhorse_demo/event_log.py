"""Follow the lifecycle events of all jobs."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from packhorse import App
from packhorse.errors import UndecodablePayload
from packhorse.model.clock import SYSTEM
from packhorse.model.event import LIFECYCLE, Change, unpack
from packhorse.model.ids import id_text

POLL_EVERY_US = 30_000
MAX_JOBS_KEPT = 20_000
ENDS = frozenset({Change.DONE, Change.DEAD, Change.CANCELLED})


class LogEntry(NamedTuple):
    """One event of one job, with its time in the store and its position in the log."""

    change: Change
    at: int
    position: tuple[int, int]


class EventLog:
    """Reads the log from its current end. Forgets old jobs, but keeps all counts."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._after = 0
        self._jobs: dict[str, list[LogEntry]] = {}
        self._news = asyncio.Condition()
        self._reading = asyncio.Lock()
        self.counts: Counter[Change] = Counter()
        self.recent: deque[tuple[Change, str]] = deque(maxlen=10)

    async def skip(self) -> None:
        """Skip the events so far."""
        streams = (await self._app.store()).streams
        while events := await streams.read(LIFECYCLE, after=self._after, limit=500):
            self._after = events[-1].offset

    async def follow(self) -> None:
        """Read new events until cancelled."""
        while True:
            if not await self.read():
                await SYSTEM.sleep(POLL_EVERY_US)

    async def read(self) -> bool:
        """Read new events; return whether there were any."""
        async with self._reading:
            events = await (await self._app.store()).streams.read(LIFECYCLE, after=self._after, limit=500)
            for event in events:
                self._after = event.offset
                with suppress(UndecodablePayload):  # one bad entry does not end the log
                    for index, (change, job) in enumerate(unpack(event.data)):
                        self._add(id_text(job), LogEntry(change, event.at, (event.offset, index)))
        if events:
            async with self._news:
                self._news.notify_all()
        return bool(events)

    async def caught_up(self) -> None:
        """Read until there is no new event."""
        while await self.read():
            pass

    def of(self, job: str) -> list[LogEntry]:
        """Return the events of a job so far."""
        return self._jobs.get(job, [])

    def first(self, job: str, change: Change) -> LogEntry | None:
        """Return the first event of this kind of a job."""
        return next((entry for entry in self.of(job) if entry.change is change), None)

    def times(self, jobs: Iterable[str], change: Change) -> int:
        """Count the events of this kind of these jobs."""
        return sum(entry.change is change for job in jobs for entry in self.of(job))

    async def happened(self, jobs: Iterable[str], *changes: Change) -> None:
        """Wait until the latest event of each of these jobs is one of these."""
        wanted = set(jobs)
        async with self._news:
            while wanted := {job for job in wanted if not self.of(job) or self.of(job)[-1].change not in changes}:
                await self._news.wait()

    async def ended(self, jobs: Iterable[str]) -> None:
        """Wait until these jobs have ended."""
        await self.happened(jobs, *ENDS)

    def _add(self, job: str, entry: LogEntry) -> None:
        self._jobs.setdefault(job, []).append(entry)
        self.counts[entry.change] += 1
        self.recent.append((entry.change, job))
        if len(self._jobs) > MAX_JOBS_KEPT:
            del self._jobs[next(iter(self._jobs))]
