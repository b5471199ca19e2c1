"""Looking through many jobs: state by state, queue by queue, a bounded look at a time."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.ids import JobId
from packhorse.model.job import Job, State
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts
from packhorse.stores.postgres.namespace import Namespace

_CHUNK = 200

Position = tuple[int | bytes, ...]


class _Spot(msgspec.Struct, frozen=True, array_like=True):
    """Where a look goes on: after a position in a queue, in a state. Bytes in the position are hex."""

    state: State
    queue: str
    after: tuple[int | str, ...]


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
        get: Callable[[Sequence[JobId]], Awaitable[list[Job | None]]],
        count: Callable[[], Awaitable[Mapping[str, Counts]]],
    ) -> None:
        self._namespace = namespace
        self._get = get
        self._count = count

    async def page(self, wanted: Filter, limit: int, cursor: str | None) -> Page[Job]:
        """Jobs that fit, and where to go on."""
        start = _spot(cursor) if cursor else None
        items: list[Job] = []
        looked = 0
        for state, queue, first in _rooms(await self._count(), wanted, start):
            after = first
            while True:
                most = min(_CHUNK, caps.LOOKED_AT - looked)
                found = await self._ids(state, queue, after, most)
                jobs = {job.id: job for job in await self._get([job for job, _ in found]) if job is not None}
                for job, position in found:
                    after = position
                    looked += 1
                    if job in jobs and jobs[job].state is state and wanted.fits(jobs[job]):
                        items.append(jobs[job])
                    if len(items) == limit or looked == caps.LOOKED_AT:
                        return Page(tuple(items), _cursor(state, queue, after))
                if len(found) < most:
                    break
        return Page(tuple(items))

    async def _ids(self, state: State, queue: str, after: Position, most: int) -> list[tuple[JobId, Position]]:
        statement, _ = _START[state]
        end = (state.value,) if state.ended else ()
        found = await self._namespace.read(statement, queue, most, *after, *end)
        return [(job, tuple(position)) for job, *position in found]


def _rooms(counts: Mapping[str, Counts], wanted: Filter, start: _Spot | None) -> list[tuple[State, str, Position]]:
    """The states and queues to look at, in order, each with the position after which to begin."""
    states = list(State)
    rooms = []
    for state in states:
        for queue in sorted(counts):
            if wanted.state not in (None, state) or wanted.queue not in (None, queue):
                continue
            if start is not None and (state, queue) == (start.state, start.queue):
                rooms.append((state, queue, _position(start.after)))
            elif start is not None and (states.index(state), queue) < (states.index(start.state), start.queue):
                continue
            elif counts[queue].get(state):
                rooms.append((state, queue, _START[state][1]))
    return rooms


def _cursor(state: State, queue: str, after: Position) -> str:
    plain = tuple(part.hex() if isinstance(part, bytes) else part for part in after)
    return base64.urlsafe_b64encode(msgspec.json.encode(_Spot(state, queue, plain))).decode()


def _spot(cursor: str) -> _Spot:
    try:
        spot = msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=_Spot)
        if _meant(_position(spot.after), _START[spot.state][1]):
            return spot
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        pass
    raise InvalidOption("cursor", cursor, "give the cursor of an earlier page")


def _meant(position: Position, start: Position) -> bool:
    """Whether a position is one that this state can have."""
    return len(position) == len(start) and all(
        (isinstance(part, bytes) and isinstance(first, bytes) and len(part) == 16)
        or (isinstance(part, int) and isinstance(first, int) and -1 <= part <= 2**62)
        for part, first in zip(position, start, strict=True)
    )


def _position(after: tuple[int | str, ...]) -> Position:
    return tuple(bytes.fromhex(part) if isinstance(part, str) else part for part in after)
