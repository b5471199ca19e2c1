"""Streams: append-only logs, each with a counter of its own."""

from collections import Counter
from collections.abc import Sequence

from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event
from packhorse.stores import edge
from packhorse.stores.sqlite.seat import Seat
from packhorse.stores.sqlite.step import SQL, Step, as_json


def append(step: Step, events: Sequence[Publish]) -> list[int]:
    """Append events and answer their offsets."""
    if not events:
        return []
    nexts = {}
    for stream, count in Counter(event.stream for event in events).items():
        (last,) = step.row(SQL.advance_head, stream, count)
        nexts[stream] = last - count + 1
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

    def __init__(self, database: Seat) -> None:
        self._database = database

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
