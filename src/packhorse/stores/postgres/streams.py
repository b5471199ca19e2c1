"""Append-only logs of events, and the lifecycle of jobs among them."""

from collections.abc import Sequence

from packhorse.model import caps
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event
from packhorse.stores.postgres import rows, wire
from packhorse.stores.postgres.namespace import Namespace

_NUMBERED = 5000


class PostgresStreams:
    """The streams of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and answer their offsets."""
        caps.items("events", events)
        added = await self._namespace.write("publish", wire.events(events), self._namespace.now())
        return [offset for (offset,) in added]

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Answer the events after an offset, oldest first."""
        caps.name("stream", stream)
        caps.within("after", after, 0, 2**63 - 1)
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        if stream == LIFECYCLE:
            await self._number()
            found = await self._namespace.read("read_lifecycle", after, limit)
        else:
            found = await self._namespace.read("read_events", stream, after, limit)
        return [rows.event(stream, row) for row in found]

    async def _number(self) -> None:
        """Give offsets to what was written since the last look; a step at a time, for the head is locked meanwhile."""
        numbered = _NUMBERED
        while numbered == _NUMBERED:
            [[numbered]] = await self._namespace.write("number", _NUMBERED)
