"""Reads the end of the log once for all subscribers of an event loop, and keeps the newest pages for slower ones."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final
from weakref import WeakSet

from packhorse.engine.wakeup import Wakeup
from packhorse.events.details import EventDetails
from packhorse.events.log import READ_ENTRIES, LifecycleLog
from packhorse.events.page import LogPage
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.model.event import LIFECYCLE
from packhorse.stores.contract import Store

LOOK_PERIOD_US: Final = limits.SECOND  # at the end of the log, if no hint comes
KEPT_BYTES: Final = 256 << 10  # of pages; about 16,000 changes
KEPT_PAGES: Final = 1_000


class Follower:
    """Follows the log while it has subscribers, from where the first of them starts or has caught up.

    A subscriber that falls behind the pages kept here reads the store by itself until it has caught up.
    """

    def __init__(self, store: Store) -> None:
        self.log, self.details = LifecycleLog(store), EventDetails(store)
        self.subscribers: WeakSet[object] = WeakSet()
        self._loop = asyncio.get_running_loop()
        self._pages: deque[LogPage] = deque()
        self._size = 0
        self._next = 0
        self._error: BaseException | None = None
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether it can follow no more: it has failed, or its event loop is closed."""
        return self._error is not None or self._loop.is_closed()

    def pages(self, offset: int) -> list[LogPage] | None:
        """The pages from an offset on that are kept here; None if the store must be read."""
        if self._task is None or (self._pages and offset < self._pages[0].first):
            return None
        if not self._pages and offset < self._next:
            return None
        return [page for page in self._pages if page.next > offset]

    def begin(self, offset: int) -> None:
        """Follow from an offset on, which is near the end of the log; it goes on where it is if it has begun."""
        if self._task is None:
            self._next = offset
            self._task = asyncio.create_task(self._run(), name="packhorse-events")
            self._task.add_done_callback(self._ended)

    async def beyond(self, offset: int) -> None:
        """Wait until the log goes on at an offset."""
        while True:
            if self._error is not None:
                raise self._error
            self.begin(offset)
            if self._next > offset:
                return
            await self._moved.wait()

    def leave(self, subscriber: object) -> None:
        """Let a subscriber go; without any, the follower rests."""
        self.subscribers.discard(subscriber)
        if not self.subscribers and self._task is not None:
            self._task.cancel()
            self._rest()

    async def _run(self) -> None:
        hints = Wakeup(SYSTEM)
        listening = asyncio.create_task(self._listen(hints))
        try:
            while self.subscribers:
                before = self._next
                self._keep(await self.log.read(before))
                if self._next < before + READ_ENTRIES:  # the end of the log
                    await hints.wait(LOOK_PERIOD_US)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, hints: Wakeup) -> None:
        async with aclosing(self.log.store.streams.wakes(LIFECYCLE)) as wakes:
            async for _ in wakes:
                hints.set()
        hints.set()  # the store is closed, which the next read finds

    def _keep(self, pages: Sequence[LogPage]) -> None:
        if not pages:
            return
        self._pages.extend(pages)
        self._size += sum(page.size for page in pages)
        self._next = pages[-1].next
        while len(self._pages) > 1 and (self._size > KEPT_BYTES or len(self._pages) > KEPT_PAGES):
            self._size -= self._pages.popleft().size
        self._wake()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
        if task is self._task:
            self._rest()

    def _rest(self) -> None:
        self._task, self._size = None, 0
        self._pages.clear()
        self._wake()

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
