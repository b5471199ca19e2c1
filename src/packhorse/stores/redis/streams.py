"""Append-only logs of events."""

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from packhorse.model.effect import Publish
from packhorse.model.event import Event, StreamBounds
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import MOMENT
from packhorse.stores.redis.wakes import published
from packhorse.stores.stream_wakes import StreamWakes


class RedisStreams:
    """The streams facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._wakes = StreamWakes(self._heads, partial(published, keyspace))

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and return their offsets."""
        edge.events(events)
        if not events:
            return []
        rows: list[Any] = []
        for event in events:
            rows += (event.stream, event.data, event.key or "")
        return [int(offset) for offset in await self._keyspace.run("publish", events=rows)]

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Return the events after an offset, oldest first."""
        edge.reading(stream, after, limit)
        entries = await self._keyspace.read("XRANGE", "stream", stream, f"{after + 1}-0", "+", "COUNT", limit)
        return [_event(stream, offset, fields) for offset, fields in entries]

    async def bounds(self, stream: str) -> StreamBounds:
        """Return the offsets of the first and the last event that a stream keeps."""
        edge.stream(stream)
        first, last = await self._keyspace.run("bounds", stream=stream)
        return StreamBounds(int(first), int(last))

    async def trim(self, stream: str, below: int, limit: int) -> int:
        """Remove the oldest events below an offset, and return how many were removed."""
        edge.trim(stream, below, limit)
        return int(await self._keyspace.run("trim", stream=stream, below=below, limit=limit))

    def wakes(self, stream: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever a stream may have new events."""
        edge.stream(stream)
        return self._wakes.listen(stream)

    async def close(self) -> None:
        """Let the readers go that wait for hints."""
        await self._wakes.close()

    async def _heads(self, streams: Sequence[str]) -> list[int | None]:
        heads = await self._keyspace.read("HMGET", "stream_heads", None, *streams)
        return [int(head or 0) for head in heads]


def _event(stream: str, entry: bytes, fields: Sequence[bytes]) -> Event:
    """Return an entry as an event; unreadable fields, as other programs may write them, are left empty."""
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    moment, key = found.get(b"t", b""), found.get(b"k")
    return Event(
        stream,
        int(entry.partition(b"-")[0]),
        int(MOMENT.unpack(moment)[0]) if len(moment) == MOMENT.size else 0,
        found.get(b"d", b""),
        None if key is None else key.decode(errors="replace"),
    )
