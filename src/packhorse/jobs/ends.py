"""Waiting for jobs to end: one listener for all who wait on a loop, and a slow look for hints that were missed.

The order keeps it safe: register interest, look, listen. A job that ended before is answered by the look.
"""

import asyncio

from packhorse.engine.bell import Bell
from packhorse.errors import StoreError
from packhorse.model import backoff, caps
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import Job
from packhorse.stores.contract import Store, Topic

WATCH = 60 * caps.SECOND
LOOK = caps.SECOND
PER_WAITER = 1000  # microseconds more between slow looks for each who waits
PAUSES = backoff.exponential(0.05, cap=1, jitter=0)


class Ends:
    """Answers those who wait. Its tasks live only while somebody does."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: dict[JobId, set[asyncio.Future[Job | None]]] = {}
        self._new: list[JobId] = []
        self._bell = Bell(clock)
        self._hinted = False
        self._tasks: list[asyncio.Task[None]] = []

    async def of(self, job: JobId) -> Job | None:
        """The job once it has ended; None if there is no such job."""
        future: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, set()).add(future)
        self._new.append(job)
        self._bell.ring()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._listen())]
        try:
            return await future
        finally:
            self._leave(job, future)

    def _leave(self, job: JobId, future: "asyncio.Future[Job | None]") -> None:
        futures = self._waiting.get(job)
        if futures is not None:
            futures.discard(future)
            if not futures:
                del self._waiting[job]
        if not self._waiting:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def close(self) -> None:
        """Give up on all who wait."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look(self) -> None:
        failures, slow = 0, self._clock.steady() + LOOK
        while True:
            try:
                new, self._new = self._new, []
                hinted, self._hinted = self._hinted, False
                late = self._clock.steady() >= slow
                await self._see(list(self._waiting) if hinted or late else new, thoroughly=late or bool(new))
                if late:
                    slow = self._clock.steady() + LOOK + PER_WAITER * len(self._waiting)
                failures = 0
            except StoreError:
                failures += 1
                self._hinted = True
                await self._clock.sleep(PAUSES.delay(failures, 0.5))
            if not (self._new or self._hinted):
                await self._bell.wait(max(0, slow - self._clock.steady()))

    async def _see(self, jobs: list[JobId], *, thoroughly: bool) -> None:
        for first in range(0, len(jobs), caps.ITEMS):
            some = [job for job in dict.fromkeys(jobs[first : first + caps.ITEMS]) if job in self._waiting]
            ended = await self._store.jobs.watch(some, WATCH) if some else []
            for one in ended:
                self._tell(one.id, one)
            if thoroughly:
                left = [job for job in some if job in self._waiting]
                found = await self._store.jobs.get(left) if left else []
                for job, known in zip(left, found, strict=True):
                    if known is None or known.state.ended:
                        self._tell(job, known)

    def _tell(self, id: JobId, job: Job | None) -> None:
        for future in self._waiting.pop(id, ()):
            if not future.done():
                future.set_result(job)

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                async for _ in self._store.wakes(Topic.ENDS):
                    failures, self._hinted = 0, True
                    self._bell.ring()
            except StoreError:
                pass
            failures += 1
            await self._clock.sleep(PAUSES.delay(failures, 0.5))
