"""Find jobs state by state, a page at a time; a cursor tells where the next page begins."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from packhorse.model import limits
from packhorse.model.ids import JobId
from packhorse.model.job import State, StoredJob
from packhorse.model.page import Filter, Page
from packhorse.stores.cursor import cursor_of, is_like, position_of, refused
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import UNREADABLE

_VERDICTS = {State.DONE: "d", State.DEAD: "k", State.CANCELLED: "c"}
_SCORED = {State.SCHEDULED: ("scheduled", 4), State.WAITING: ("waiting", 0), State.RUNNING: ("running", 0)}
_STATES = tuple(State)


class PageCursor(msgspec.Struct, frozen=True, array_like=True):
    """A state of a queue and how far its jobs were read; without a queue, of all: running ones are in one sorted set.

    The queue is in bytes, because other programs may have made one whose name is not UTF-8.
    """

    state: State
    queue: bytes
    position: tuple[bytes | int, ...] = ()

    @property
    def rank(self) -> tuple[int, bytes]:
        """Return the key by which cursors are ordered: states, then queues."""
        return _STATES.index(self.state), self.queue

    def at(self, *position: bytes | int) -> "PageCursor":
        """Return a cursor to another position of the same state and queue."""
        return PageCursor(self.state, self.queue, position)


class FoundIds(msgspec.Struct, frozen=True):
    """A page of ids, each with the cursor behind it, and where the next page begins, if there is one."""

    found: Sequence[tuple[JobId, PageCursor]]
    next_page: PageCursor | None


class Pages:
    """Finds jobs by state and queue."""

    def __init__(self, keyspace: Keyspace, get: Callable[..., Awaitable[list[StoredJob | None]]]) -> None:
        self._keyspace = keyspace
        self._get = get

    async def find(self, filter: Filter, limit: int, cursor: str | None, *, bodies: bool) -> Page[StoredJob]:
        """Read at most a thousand jobs and return those that fit."""
        first = None if cursor is None else _decoded(cursor)
        items: list[StoredJob] = []
        read = 0
        for start in await self._starts(filter, first):
            position: PageCursor | None = start
            while position is not None:
                if read >= limits.LOOKED_AT:
                    return Page(tuple(items), cursor_of(position))
                page = await self._page(position, min(limits.ITEMS, limits.LOOKED_AT - read))
                read += len(page.found) or 1
                for job, behind in await self._jobs(page, bodies=bodies):
                    if filter.fits(job):
                        items.append(job)
                        if len(items) == limit:
                            return Page(tuple(items), cursor_of(behind))
                position = page.next_page
        return Page(tuple(items))

    async def _starts(self, filter: Filter, first: PageCursor | None) -> list[PageCursor]:
        """Return a cursor for each state and queue to read, without those whose count is zero."""
        fields = await self._keyspace.read("HGETALL", "counts")
        starts = set()
        for field, number in zip(fields[::2], fields[1::2], strict=True):
            queue, _, word = field.rpartition(b"\x1f")
            state = State(word.decode()) if word and int(number) > 0 else None
            if state and filter.queue in (None, queue.decode(errors="replace")) and filter.state in (None, state):
                merged = state is State.RUNNING or (state.ended and filter.queue is None)
                starts.add(PageCursor(state, b"" if merged else queue))
        if first is None:
            return sorted(starts, key=lambda start: start.rank)
        return [first, *sorted((start for start in starts if start.rank > first.rank), key=lambda start: start.rank)]

    async def _jobs(self, page: FoundIds, *, bodies: bool) -> list[tuple[StoredJob, PageCursor]]:
        """Return the jobs that are still in the state and queue in which they were found."""
        jobs = await self._get([job for job, _ in page.found], bodies=bodies)
        return [
            (job, at)
            for job, (_, at) in zip(jobs, page.found, strict=True)
            if job is not None
            and job.state is at.state
            and (not at.queue or job.queue in (at.queue.decode(errors="replace"), UNREADABLE.queue))
        ]

    async def _page(self, start: PageCursor, limit: int) -> FoundIds:
        if start.state is State.READY:
            return await self._ready(start, limit)
        if start.state in _VERDICTS:
            return await self._ended(start, limit)
        return await self._scored(start, limit)

    async def _scored(self, start: PageCursor, limit: int) -> FoundIds:
        kind, skip = _SCORED[start.state]
        score, member = start.position or ("", "")
        rows = await self._keyspace.run(
            "find_scored", kind=kind, name=start.queue, score=score, member=member, limit=limit
        )
        found = [(name[skip:], start.at(mark, name)) for name, mark in zip(rows[::2], rows[1::2], strict=True)]
        return FoundIds(found, found[-1][1] if len(found) == limit else None)

    async def _ready(self, start: PageCursor, limit: int) -> FoundIds:
        priority, position = start.position or (0, 0)
        done, last, at, rows = await self._keyspace.run(
            "find_ready", queue=start.queue, priority=priority, position=position, limit=limit
        )
        found = [
            (id, start.at(int(each), int(index) + 1))
            for each, index, id in zip(rows[::3], rows[1::3], rows[2::3], strict=True)  # noqa: A001
        ]
        return FoundIds(found, None if done == b"1" else start.at(int(last), int(at)))

    async def _ended(self, start: PageCursor, limit: int) -> FoundIds:
        done, next_positions, rows = await self._keyspace.run(
            "find_ended", queue=start.queue, verdict=_VERDICTS[start.state], limit=limit, positions=start.position
        )
        positions = dict(zip(start.position[::2], start.position[1::2], strict=True))
        found = []
        for group, index, id in zip(rows[::3], rows[1::3], rows[2::3], strict=True):  # noqa: A001
            positions[int(group)] = int(index)
            found.append((id, start.at(*_flat(positions))))
        return FoundIds(found, None if done == b"1" else start.at(*map(int, next_positions)))


def _flat(positions: dict[Any, Any]) -> list[Any]:
    return [number for pair in positions.items() for number in pair]


def _decoded(cursor: str) -> PageCursor:
    start = position_of(cursor, PageCursor)
    pattern: tuple[int | bytes, ...] = (0, 0) if start.state is State.READY else (b"", b"")
    if start.state in _VERDICTS:
        pattern = (0,) * (len(start.position) // 2 * 2)
    if start.position and not is_like(start.position, pattern):
        raise refused(cursor)
    return start
