"""Looking through many jobs: state by state, queue by queue, a bounded look at a time."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from packhorse.model import limits
from packhorse.model.ids import JobId
from packhorse.model.job import State, StoredJob
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts
from packhorse.stores.cursor import cursor_of, is_like, position_of, refused
from packhorse.stores.postgres.namespace import Namespace

_CHUNK = 200

Position = tuple[int | bytes, ...]


class _PageCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a look goes on: after a position in a queue, in a state. No queue has ended jobs of all queues."""

    state: State
    queue: str
    after: Position


_NEWEST: Position = (2**62, b"\xff" * 16)
_START: dict[State, tuple[str, Position]] = {  # the statement that looks at a state, and where it begins
    State.SCHEDULED: ("find_scheduled", (-1, -1)),
    State.READY: ("find_ready", (-1, -1, -1)),
    State.RUNNING: ("find_running", (bytes(16),)),
    State.WAITING: ("find_waiting", (-1,)),
    State.DONE: ("find_ended", _NEWEST),
    State.DEAD: ("find_ended", _NEWEST),
    State.CANCELLED: ("find_ended", _NEWEST),
}


class Listing:
    """Pages of jobs. Counts say which queues have jobs in which state, so that no empty one is looked at."""

    def __init__(
        self,
        namespace: Namespace,
        get: Callable[..., Awaitable[list[StoredJob | None]]],
        count: Callable[[], Awaitable[Mapping[str, Counts]]],
    ) -> None:
        self._namespace = namespace
        self._get = get
        self._count = count

    async def page(self, wanted: Filter, limit: int, cursor: str | None, *, bodies: bool) -> Page[StoredJob]:
        """Jobs that fit, and where to go on."""
        start = None if cursor is None else _page_cursor(cursor)
        items: list[StoredJob] = []
        looked = 0
        for state, queue, first in _rooms(await self._count(), wanted, start):
            after = first
            while True:
                most = min(_CHUNK, limits.LOOKED_AT - looked)
                found = await self._ids(state, queue, after, most)
                got = await self._get([job for job, _ in found], bodies=bodies)
                jobs = {job.id: job for job in got if job is not None}
                for job, position in found:
                    after = position
                    looked += 1
                    if job in jobs and jobs[job].state is state and wanted.fits(jobs[job]):
                        items.append(jobs[job])
                    if len(items) == limit or looked == limits.LOOKED_AT:
                        return Page(tuple(items), cursor_of(_PageCursor(state, queue, after)))
                if len(found) < most:
                    break
        return Page(tuple(items))

    async def _ids(self, state: State, queue: str, after: Position, most: int) -> list[tuple[JobId, Position]]:
        statement, _ = _START[state]
        end = (state.value,) if state.ended else ()
        found = await self._namespace.read(statement, queue or None, most, *after, *end)
        return [(job, tuple(position)) for job, *position in found]


def _rooms(
    counts: Mapping[str, Counts], wanted: Filter, start: _PageCursor | None
) -> list[tuple[State, str, Position]]:
    """The states and queues to look at, in order, each with the position after which to begin."""
    states = [state for state in State if wanted.state in (None, state)]
    filled = {(state, queue) for queue, by_state in counts.items() for state in states if by_state.get(state)}
    rooms = {
        (state, "" if state.ended and wanted.queue is None else queue)
        for state, queue in filled
        if wanted.queue in (None, queue)
    }
    places = list(State)
    ordered = sorted((places.index(state), queue) for state, queue in rooms)
    if start is None:
        return [(places[place], queue, _START[places[place]][1]) for place, queue in ordered]
    first = (places.index(start.state), start.queue)
    later = [(places[place], queue, _START[places[place]][1]) for place, queue in ordered if (place, queue) > first]
    return [(start.state, start.queue, start.after), *later]


def _page_cursor(cursor: str) -> _PageCursor:
    position = position_of(cursor, _PageCursor)
    first = _START[position.state][1]
    if is_like(position.after, first) and all(len(part) == 16 for part in position.after if isinstance(part, bytes)):
        return position
    raise refused(cursor)
