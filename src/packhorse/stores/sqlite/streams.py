"""Streams: append-only logs, each with a counter of its own."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence

from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event, StreamBounds
from packhorse.stores import edge
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json
from packhorse.stores.stream_wakes import StreamWakes


def append(step: UnitOfWork, events: Sequence[Publish]) -> list[int]:
    """Append events and answer their offsets."""
    if not events:
        return []
    nexts = {}
    for stream, count in Counter(event.stream for event in events).items():
        (last,) = step.row(SQL.advance_stream_head, stream, count)
        nexts[stream] = last - count + 1
    step.published = True
    offsets = []
    for event in events:
        offsets.append(nexts[event.stream])
        nexts[event.stream] += 1
    rows = [
        (event.stream, offset, event.key, event.data.decode()) for event, offset in zip(events, offsets, strict=True)
    ]
    step.run(SQL.add_events, step.now, as_json(rows))
    return offsets


class SQLiteStreams:
    """Append-only logs of events."""

    def __init__(self, database: StoreHandle) -> None:
        self._database = database
        self._wakes = StreamWakes(self._heads, lambda _: database.listen_for_events())

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and answer their offsets."""
        edge.events(events)
        return await self._database.write(lambda step: append(step, events))

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Answer the events after an offset, oldest first."""
        edge.reading(stream, after, limit)
        statement = SQL.read_lifecycle if stream == LIFECYCLE else SQL.read_events
        return await self._database.read(
            lambda step: [
                Event(stream, offset, at, data, key)
                for offset, at, key, data in step.rows(statement, stream, after, limit)
            ]
        )

    async def bounds(self, stream: str) -> StreamBounds:
        """Answer the offsets of the first and the last event that a stream keeps."""
        edge.stream(stream)
        statement = (SQL.lifecycle_bounds,) if stream == LIFECYCLE else (SQL.event_bounds, stream)
        first, last = await self._database.read(lambda step: step.row(*statement))
        return StreamBounds(last + 1 if first is None else first, last)

    async def trim(self, stream: str, below: int, limit: int) -> int:
        """Remove the oldest events below an offset, and answer how many were removed."""
        edge.trim(stream, below, limit)
        statement = SQL.trim_lifecycle if stream == LIFECYCLE else SQL.trim_events
        return await self._database.write(lambda step: step.run(statement, stream, below, limit).rowcount)

    def wakes(self, stream: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever a stream may have new events."""
        edge.stream(stream)
        return self._wakes.listen(stream)

    async def close(self) -> None:
        """Let the readers go that wait for hints."""
        await self._wakes.close()

    async def _heads(self, streams: Sequence[str]) -> list[int | None]:
        rows = await self._database.read(lambda step: step.rows(SQL.stream_heads, as_json(streams)))
        return [head for (head,) in rows]
