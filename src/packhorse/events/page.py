"""A part of the log, whose events are made once however many subscribers want them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from packhorse.errors import UndecodablePayload
from packhorse.events.event import Gap, JobEvent, JobEventName
from packhorse.events.position import LogPosition
from packhorse.model.event import Change, Event, unpack
from packhorse.model.ids import JobId

if TYPE_CHECKING:
    from packhorse.events.details import EventDetails

_LOG = logging.getLogger("packhorse.events")
_NAMES: Final = {change: JobEventName(change.name.lower()) for change in Change if change is not Change.HELD}


class LoggedChange(NamedTuple):
    """A change of a job, the position after it, and its moment in microseconds."""

    after: LogPosition
    at: int
    name: JobEventName
    job: JobId


class LogPage:
    """Some entries in a row, of the offsets from ``first`` to before ``next``; without entries it is a gap."""

    def __init__(self, first: int, next: int, entries: Sequence[Event]) -> None:
        self.first, self.next = first, next
        self.size = sum(len(entry.data) for entry in entries)
        self._entries = entries
        self._lock = asyncio.Lock()
        self._changes: list[LoggedChange] | None = None
        self._made: dict[LogPosition, JobEvent | Gap] = {}
        self._names: frozenset[JobEventName] = frozenset()

    async def events(
        self, details: "EventDetails", wanted: frozenset[JobEventName]
    ) -> list[tuple[LogPosition, JobEvent | Gap]]:
        """The events of these names in order, each with the position after it, and gaps."""
        async with self._lock:
            if self._changes is None:
                self._changes = self._unpacked()
            more = wanted - self._names
            if missing := [change for change in self._changes if change.name in more]:
                made = await details.events(missing)
                self._made |= {change.after: event for change, event in zip(missing, made, strict=True)}
            self._names |= more
        return sorted(
            ((after, event) for after, event in self._made.items() if isinstance(event, Gap) or event.name in wanted),
            key=_position,
        )

    def _unpacked(self) -> list[LoggedChange]:
        """What the entries tell; a gap for an entry that is damaged, and for this page if it is one."""
        changes: list[LoggedChange] = []
        if not self._entries:
            self._add_gap(self.next - self.first, self.next)
        for entry in self._entries:
            try:
                found = unpack(entry.data)
            except UndecodablePayload as error:
                _LOG.warning("Entry %d of the log of job events is passed over: %s", entry.offset, error)
                self._add_gap(1, entry.offset + 1, damaged=True)
                continue
            for index, (change, job) in enumerate(found, 1):
                after = LogPosition(entry.offset, index) if index < len(found) else LogPosition(entry.offset + 1)
                if change in _NAMES:
                    changes.append(LoggedChange(after, entry.at, _NAMES[change], job))
        return changes

    def _add_gap(self, missed: int, next: int, *, damaged: bool = False) -> None:
        first = LogPosition(next)
        self._made[first] = Gap(missed=missed, first=str(first), damaged=damaged)


def _position(item: tuple[LogPosition, object]) -> LogPosition:
    return item[0]
