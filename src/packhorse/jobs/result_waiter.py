"""Waiting for jobs to end: one listener for all waiters of a loop, and a slow look for hints that were missed.

A new waiter is answered by one read if its job has ended already. Otherwise the order keeps it safe: listen, register
interest, look.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

from packhorse.engine.wakeup import Wakeup
from packhorse.errors import OutcomeUnknown, StoreClosed, StoreFull, StoreUnavailable
from packhorse.model import backoff, limits
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import StoredJob
from packhorse.stores.contract import Store, Topic

WATCH_US = 60 * limits.SECOND
POLL_US = limits.SECOND
PER_WAITER = 1000  # microseconds more between slow looks for each waiter
PAUSES = backoff.exponential(0.05, cap=1, jitter=0)

Look = Callable[[Sequence[JobId]], Awaitable[None]]


class ResultWaiter:
    """Answers waiters. Its tasks live only while there are some; the listener only while a job has not ended."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting: dict[JobId, set[asyncio.Future[StoredJob | None]]] = {}
        self._new: list[JobId] = []
        self._wakeup = Wakeup(clock)
        self._hinted = False
        self._tasks: list[asyncio.Task[None]] = []

    async def of(self, job: JobId) -> StoredJob | None:
        """The job once it has ended; None if there is no such job."""
        future: asyncio.Future[StoredJob | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, set()).add(future)
        self._new.append(job)
        self._wakeup.set()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._look())]
        try:
            return await future
        finally:
            self._leave(job, future)

    def _leave(self, job: JobId, future: "asyncio.Future[StoredJob | None]") -> None:
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
        """Look for new waiters at once; for all of them after a hint, and now and then, in a round of bounded parts.

        Between two parts, new waiters are served. After a hint the newest waiters come first (most jobs that are waited for
        are short), then a round of all that begins with the oldest: their jobs end first, and a watched job is kept for
        ten seconds only.
        """
        failures, slow, again = 0, self._clock.steady() + POLL_US, False
        left: list[JobId] = []  # waiters that the current round has not looked for; the oldest last
        while True:
            try:
                new, self._new = self._new, []
                hinted, self._hinted = self._hinted, False
                if new:
                    await self._each(self._get, new)
                    if self._waiting and len(self._tasks) == 1:
                        self._tasks.append(asyncio.create_task(self._listen()))
                    await self._each(self._watch, new)
                if self._clock.steady() >= slow:
                    again, slow = True, self._clock.steady() + self._pause
                if hinted:
                    again = again or len(self._waiting) > limits.ITEMS
                    await self._each(self._watch, islice(reversed(self._waiting), limits.ITEMS))
                if again and not left:
                    left, again = list(reversed(self._waiting)), False
                if left:
                    await self._each(self._watch, reversed(left[-limits.ITEMS :]))
                    del left[-limits.ITEMS :]
                failures = 0
            except Exception:  # noqa: BLE001 - the store is away, or worse: waiters wait on, and are answered once it is back
                failures += 1
                self._new, self._hinted = [*(job for job in new if job in self._waiting), *self._new], True
                left = []
                await self._clock.sleep(PAUSES.delay(failures, 0.5))
            if not (self._new or self._hinted or left or again):
                await self._wakeup.wait(max(0, slow - self._clock.steady()))

    @property
    def _pause(self) -> int:
        """How long after a slow look the next one begins. A watch is renewed once half of it is over, so it lasts four."""
        return POLL_US + PER_WAITER * len(self._waiting)

    async def _each(self, look: Look, jobs: Iterable[JobId]) -> None:
        """Look at those of these jobs that somebody still waits for."""
        waiting = [job for job in dict.fromkeys(jobs) if job in self._waiting]
        for first in range(0, len(waiting), limits.ITEMS):
            await self._narrowed(look, waiting[first : first + limits.ITEMS])

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
            for job, found in (await self._store.jobs.watch(jobs, max(WATCH_US, 4 * self._pause))).items():
                self._tell(job, found)
        except StoreFull:
            await self._get(jobs)

    def _tell(self, id: JobId, job: StoredJob | None) -> None:
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
                    self._wakeup.set()
            except Exception:  # noqa: BLE001 - hints may be missed: the slow look goes on meanwhile
                pass
            failures += 1
            await self._clock.sleep(PAUSES.delay(failures, 0.5))
