"""Append-only logs of events."""

from collections.abc import Sequence
from typing import Any

from packhorse.model.effect import Publish
from packhorse.model.event import Event
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import MOMENT


class Streams:
    """The streams facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and answer their offsets."""
        edge.events(events)
        if not events:
            return []
        rows: list[Any] = []
        for event in events:
            rows += (event.stream, event.data, event.key or "")
        return [int(offset) for offset in await self._keyspace.run("publish", events=rows)]

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Answer the events after an offset, oldest first."""
        edge.reading(stream, after, limit)
        entries = await self._keyspace.read("XRANGE", "stream", stream, f"{after + 1}-0", "+", "COUNT", limit)
        return [_event(stream, offset, fields) for offset, fields in entries]


def _event(stream: str, entry: bytes, fields: Sequence[bytes]) -> Event:
    """An entry as an event; what cannot be read of one that somebody else wrote is left empty."""
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    moment, key = found.get(b"t", b""), found.get(b"k")
    return Event(
        stream,
        int(entry.partition(b"-")[0]),
        int(MOMENT.unpack(moment)[0]) if len(moment) == MOMENT.size else 0,
        found.get(b"d", b""),
        None if key is None else key.decode(errors="replace"),
    )
