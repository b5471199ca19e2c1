"""Append-only logs of events, and the lifecycle of jobs among them."""

from collections.abc import AsyncGenerator, Sequence

from packhorse.model.clock import SYSTEM
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event, StreamBounds
from packhorse.stores import edge
from packhorse.stores.postgres import encoding, rows
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.stream_wakes import Heads, StreamWakes

POLL_US = 200_000  # while there are readers; a NOTIFY by each call would take a lock on all of the server's databases
_NUMBERED = 5000


class PostgresStreams:
    """The streams of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._wakes = StreamWakes(self._heads, _moments)

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and answer their offsets."""
        edge.events(events)
        added = await self._namespace.call("publish", encoding.events(events), self._namespace.now())
        return [offset for (offset,) in added]

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Answer the events after an offset, oldest first."""
        edge.reading(stream, after, limit)
        if stream == LIFECYCLE:
            await self._number()
            found = await self._namespace.read("read_lifecycle", after, limit)
        else:
            found = await self._namespace.read("read_events", stream, after, limit)
        return [rows.event(stream, row) for row in found]

    async def bounds(self, stream: str) -> StreamBounds:
        """Answer the offsets of the first and the last event that a stream keeps."""
        edge.stream(stream)
        if stream == LIFECYCLE:
            await self._number()
            [[first, last]] = await self._namespace.read("lifecycle_bounds")
        else:
            [[first, last]] = await self._namespace.read("event_bounds", stream)
        return StreamBounds(last + 1 if first is None else first, last)

    async def trim(self, stream: str, below: int, limit: int) -> int:
        """Remove the oldest events below an offset, and answer how many were removed."""
        edge.trim(stream, below, limit)
        if stream == LIFECYCLE:
            await self._number()
            [[removed]] = await self._namespace.write("trim_lifecycle", below, limit)
        else:
            [[removed]] = await self._namespace.write("trim_events", stream, below, limit)
        return int(removed)

    def wakes(self, stream: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever a stream may have new events."""
        edge.stream(stream)
        return self._wakes.listen(stream)

    async def close(self) -> None:
        """Let the readers go that wait for hints."""
        await self._wakes.close()

    async def _heads(self, streams: Sequence[str]) -> list[int | None]:
        return [head for [head] in await self._namespace.read("stream_heads", streams)]

    async def _number(self) -> None:
        """Give offsets to what was written since the last look; a step at a time, for the head is locked meanwhile."""
        numbered = _NUMBERED
        while numbered == _NUMBERED:
            [[numbered]] = await self._namespace.call("number_events", _NUMBERED)


async def _moments(_: Heads) -> AsyncGenerator[None, None]:
    while True:
        yield
        await SYSTEM.sleep(POLL_US)
