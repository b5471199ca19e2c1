"""Events of jobs for any process, in order, from a position on."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from packhorse.errors import InvalidOption
from packhorse.events.details import READ_RESULTS
from packhorse.events.event import Gap, JobEvent
from packhorse.events.filter import EventFilter, event_filter
from packhorse.events.follower import Follower
from packhorse.events.log import LifecycleLog
from packhorse.events.page import LogPage
from packhorse.events.position import LogPosition, parse_position
from packhorse.stores.contract import Store

T = TypeVar("T")

EARLIEST: Final = "earliest"
PAGES_AT_ONCE: Final = 20  # held by a subscriber; it gets more when it comes to them


class EventStream:
    """Events of jobs: ``async for event in app.events("dead")``. Each comes at least once, in order, or as part of a ``Gap``.

    Used with ``async with``, it starts when the block is entered, else at the first event.
    """

    def __init__(
        self,
        follower: Callable[[], Awaitable[Follower]],
        wanted: EventFilter,
        after: LogPosition | datetime | str | None,
        *,
        results: bool,
        follow: bool,
    ) -> None:
        self._make_follower, self._wanted, self._after = follower, wanted, after
        self._results, self._follow = results, follow
        self._follower: Follower | None = None
        self._closed = False
        self._at: LogPosition | None = after if isinstance(after, LogPosition) else None
        self._end: LogPosition | None = None  # of the page whose events come
        self._pages: deque[LogPage] = deque()
        self._events: deque[tuple[LogPosition, JobEvent | Gap]] = deque()
        self._ready: deque[tuple[LogPosition, JobEvent | Gap]] = deque()
        self._call: tuple[object, asyncio.Task[Any]] | None = None

    @property
    def position(self) -> str | None:
        """Where the next event is looked for, to resume from; None if it has not started."""
        return None if self._at is None else str(self._at)

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobEvent | Gap:
        if self._closed:
            raise StopAsyncIteration
        follower, at = await self._started()
        while not self._ready:
            if not self._events:
                at = self._at = at if self._end is None else max(at, self._end)
                if not self._pages and not await self._read(follower, at):
                    await self.aclose()
                    raise StopAsyncIteration
                page = self._pages[0]
                found = await self._going_on(page, partial(page.events, follower.details, self._wanted.names))
                self._pages.popleft()
                self._events.extend(item for item in found if item[0] > at and self._wants(item[1]))
                self._end = LogPosition(page.next)
            await self._make_ready(follower)
        self._at, event = self._ready.popleft()
        return event

    async def aclose(self) -> None:
        """End the subscription; ``position`` stays."""
        self._closed = True
        follower, self._follower = self._follower, None
        for waiting in (self._pages, self._events, self._ready):
            waiting.clear()
        if follower is not None:
            follower.leave(self)

    def _wants(self, event: JobEvent | Gap) -> bool:
        return isinstance(event, Gap) or self._wanted.wants(event)

    async def _started(self) -> tuple[Follower, LogPosition]:
        """The follower of this event loop, and where this reader is; found out at the first call."""
        if self._follower is None:
            self._follower = await self._make_follower()
            self._follower.subscribers.add(self)
        if self._at is None or self._after is not None:
            now = self._after is None
            self._at = await _beginning(self._follower.log, self._after)
            self._after = None
            if now and self._follow:
                self._follower.begin(self._at.offset)
        return self._follower, self._at

    async def _read(self, follower: Follower, at: LogPosition) -> bool:
        """Get the next pages: those that the follower has, else from the store; at the end of the log wait for more."""
        while not self._pages:
            kept = follower.pages(at.offset) if self._follow else None
            if kept is None:
                self._pages.extend(await self._going_on(at, partial(follower.log.read, at.offset)))
            else:
                self._pages.extend(kept[:PAGES_AT_ONCE])
            if not self._pages:
                if not self._follow:
                    return False
                await follower.beyond(at.offset)
        return True

    async def _make_ready(self, follower: Follower) -> None:
        """Take events that are next; with results few at a time, for results may be large."""
        if not self._results:
            self._ready, self._events = self._events, self._ready
            return
        few = [*islice(self._events, READ_RESULTS)]
        some = await self._going_on(few[0], partial(follower.details.with_results, few)) if few else []
        for _ in some:
            self._events.popleft()
        self._ready.extend(some)

    async def _going_on(self, about: object, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a call that goes on when the caller gives up waiting, and take its answer when the caller comes again."""
        if self._call is None or self._call[0] != about:
            self._call = (about, asyncio.create_task(make()))
        call: asyncio.Task[T] = self._call[1]
        answer = await asyncio.shield(call)
        self._call = None
        return answer


async def _beginning(log: LifecycleLog, after: LogPosition | datetime | str | None) -> LogPosition:
    if after is None:
        return await log.end()
    if isinstance(after, LogPosition):
        return await log.checked(after)
    return await log.since(after) if isinstance(after, datetime) else await log.beginning()


class Events:
    """The events of an app's jobs, from any process."""

    def __init__(self, store: Callable[[], Awaitable[Store]]) -> None:
        self._store = store
        self._followers: dict[Store, Follower] = {}

    def __call__(
        self,
        *names: str,
        queue: str | None = None,
        task: str | None = None,
        after: str | datetime | None = None,
        results: bool = False,
        follow: bool = True,
    ) -> EventStream:
        """Iterate over events of these names, or of all, as ``JobEvent``; ``Gap`` stands for events that are not kept.

        It starts now, or ``after`` the position of an event, at a time, or at the ``"earliest"`` event that is kept.
        Without ``follow`` it ends at the end of the log. With ``results`` events of done jobs have their results.
        """
        wanted = event_filter(names, queue, task)
        begin = after if after is None or after == EARLIEST else _checked(after)
        return EventStream(self._follower, wanted, begin, results=results, follow=follow)

    async def _follower(self) -> Follower:
        """The follower of the store of this event loop."""
        store = await self._store()
        self._followers = {each: found for each, found in self._followers.items() if not found.over}
        return self._followers.setdefault(store, Follower(store))


def _checked(after: object) -> LogPosition | datetime:
    if not isinstance(after, datetime):
        return parse_position(after)
    if after.tzinfo is None:
        raise InvalidOption("after", after, "give a datetime that has a time zone")
    return after
