"""The log of job events as pages: what is missing between entries, and where a moment stands."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from packhorse.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from packhorse.events.page import LogPage
from packhorse.events.position import LogPosition
from packhorse.model import backoff, limits
from packhorse.model.clock import SYSTEM
from packhorse.model.event import LIFECYCLE, Event
from packhorse.stores.contract import Store
from packhorse.telemetry.redact import redacted

T = TypeVar("T")

READ_ENTRIES: Final = 200
PROBE_ENTRIES: Final = 10  # read to find one whose time is not damaged
PAGE_BYTES: Final = 16 << 10  # about a thousand changes

_PAUSES = backoff.exponential(0.1, cap=5, jitter=0)
_LOG = logging.getLogger("packhorse.events")


class LifecycleLog:
    """Reads the log of job events of a store, through outages."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def end(self) -> LogPosition:
        """The position after the last entry."""
        return LogPosition((await self.store.streams.bounds(LIFECYCLE)).last + 1)

    async def beginning(self) -> LogPosition:
        """The position before the first entry that is kept."""
        return LogPosition((await self.store.streams.bounds(LIFECYCLE)).first)

    async def checked(self, position: LogPosition) -> LogPosition:
        """The position itself; one that is beyond the end of the log is refused."""
        if position > await self.end():
            raise InvalidOption(
                "after",
                str(position),
                "the log ends before it, so it belongs to another store, or the store was restored: "
                'start again, with after="earliest" or without after=',
            )
        return position

    async def since(self, moment: datetime) -> LogPosition:
        """The position before the first entry of a moment or later, by binary search; damaged times are passed by."""
        bounds = await self.store.streams.bounds(LIFECYCLE)
        low, high = bounds.first - 1, bounds.last
        micros = round(moment.timestamp() * 1_000_000)
        while low < high:
            middle = (low + high) // 2
            entries = await self.store.streams.read(LIFECYCLE, after=middle, limit=PROBE_ENTRIES)
            dated = [(entry.offset, entry.at) for entry in entries if 0 < entry.at <= limits.MAX_TIME_US]
            if not entries or (dated and dated[0][1] >= micros):
                high = middle
            else:
                low = min(dated[0][0] if dated else entries[-1].offset, high)
        return LogPosition(low + 1)

    async def read(self, offset: int) -> list[LogPage]:
        """The pages from an offset on, up to 200 entries; none at the end of the log."""
        entries = await answered(lambda: self.store.streams.read(LIFECYCLE, after=offset - 1, limit=READ_ENTRIES))
        return pages(entries, offset)


def pages(entries: Sequence[Event], offset: int) -> list[LogPage]:
    """Entries as pages of bounded size, and a page without entries for each gap between them."""
    made: list[LogPage] = []
    part: list[Event] = []
    size = 0
    for entry in entries:
        if part and (entry.offset > offset or size + len(entry.data) > PAGE_BYTES):
            made.append(LogPage(part[0].offset, offset, part))
            part, size = [], 0
        if entry.offset > offset:
            made.append(LogPage(offset, entry.offset, ()))
        part.append(entry)
        size += len(entry.data)
        offset = entry.offset + 1
    if part:
        made.append(LogPage(part[0].offset, offset, part))
    return made


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call again and again while the store is away; only for calls that are harmless when repeated."""
    failures = 0
    while True:
        try:
            answer = await call()
        except (StoreUnavailable, OutcomeUnknown) as error:
            failures += 1
            if failures == 1:
                _LOG.warning("The log of job events cannot be read, trying again: %s", redacted(str(error)))
            await SYSTEM.sleep(_PAUSES.delay(failures, 0))
        else:
            if failures:
                _LOG.info("The log of job events is read again")
            return answer
