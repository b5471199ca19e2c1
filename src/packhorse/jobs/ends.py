"""Waiting for jobs to end: one listener for all waiters of a loop, and a slow look for hints that were missed.

A new waiter is answered by one read if its job has ended already. Otherwise the order keeps it safe: register interest,
look, listen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from packhorse.engine.bell import Bell
from packhorse.errors import OutcomeUnknown, StoreClosed, StoreFull, StoreUnavailable
from packhorse.model import backoff, caps
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import Job
from packhorse.stores.contract import Store, Topic

WATCH = 60 * caps.SECOND
LOOK = caps.SECOND
PER_WAITER = 1000  # microseconds more between slow looks for each waiter
PAUSES = backoff.exponential(0.05, cap=1, jitter=0)

Look = Callable[[Sequence[JobId]], Awaitable[None]]


class Ends:
    """Answers waiters. Its tasks live only while there are some; the listener only while a job has not ended."""

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
            self._tasks = [asyncio.create_task(self._look())]
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
            self._stop()

    def _stop(self) -> list["asyncio.Task[None]"]:
        tasks, self._tasks, self._new = self._tasks, [], []
        for task in tasks:
            task.cancel()
        return tasks

    async def close(self) -> None:
        """Give up on all waiters, and tell them so."""
        tasks = self._stop()
        for job in list(self._waiting):
            self._fail(job, StoreClosed("The app was closed while this call waited: call again if it is still wanted"))
        if tasks:
            await asyncio.wait(tasks)

    async def _look(self) -> None:
        failures, slow = 0, self._clock.steady() + LOOK
        while True:
            try:
                new, self._new = self._new, []
                hinted, self._hinted = self._hinted, False
                late = self._clock.steady() >= slow
                if new:
                    await self._each(self._get, new)
                    await self._each(self._watch, new)
                if hinted or late:  # the newest first: most jobs that are waited for are short
                    await self._each(self._watch, reversed(self._waiting))
                if late:
                    slow = self._clock.steady() + LOOK + PER_WAITER * len(self._waiting)
                failures = 0
            except Exception:  # noqa: BLE001 - the store is away, or worse: waiters wait on, and are answered once it is back
                failures += 1
                self._new, self._hinted = [*(job for job in new if job in self._waiting), *self._new], True
                await self._clock.sleep(PAUSES.delay(failures, 0.5))
            if self._waiting and len(self._tasks) == 1:
                self._tasks.append(asyncio.create_task(self._listen()))
            if not (self._new or self._hinted):
                await self._bell.wait(max(0, slow - self._clock.steady()))

    async def _each(self, look: Look, jobs: Iterable[JobId]) -> None:
        """Look at those of these jobs that somebody still waits for."""
        waiting = [job for job in dict.fromkeys(jobs) if job in self._waiting]
        for first in range(0, len(waiting), caps.ITEMS):
            await self._narrowed(look, waiting[first : first + caps.ITEMS])

    async def _narrowed(self, look: Look, jobs: Sequence[JobId]) -> None:
        """Look at jobs; if one of them cannot be looked at, its waiters alone get the error."""
        try:
            await look(jobs)
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except Exception as error:  # noqa: BLE001 - the waiters get it
            if len(jobs) == 1:
                self._fail(jobs[0], error)
                return
            middle = len(jobs) // 2
            await self._narrowed(look, jobs[:middle])
            await self._narrowed(look, jobs[middle:])

    async def _get(self, jobs: Sequence[JobId]) -> None:
        """Answer waiters of jobs that have ended, or that are not there."""
        for job, found in zip(jobs, await self._store.jobs.get(jobs), strict=True):
            if found is None or found.state.ended:
                self._tell(job, found)

    async def _watch(self, jobs: Sequence[JobId]) -> None:
        """Register interest in jobs, and answer waiters of those that have ended or are not there.

        A full store can still be read.
        """
        try:
            for job, found in (await self._store.jobs.watch(jobs, WATCH)).items():
                self._tell(job, found)
        except StoreFull:
            await self._get(jobs)

    def _tell(self, id: JobId, job: Job | None) -> None:
        for future in self._waiting.pop(id, ()):
            if not future.done():
                future.set_result(job)

    def _fail(self, id: JobId, error: Exception) -> None:
        for future in self._waiting.pop(id, ()):
            if not future.done():
                future.set_exception(error)

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                async for _ in self._store.wakes(Topic.ENDS):
                    failures, self._hinted = 0, True
                    self._bell.ring()
            except Exception:  # noqa: BLE001 - hints may be missed: the slow look goes on meanwhile
                pass
            failures += 1
            await self._clock.sleep(PAUSES.delay(failures, 0.5))
