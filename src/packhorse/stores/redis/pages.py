"""Looking through jobs place by place: each look is one script, and a cursor says where the next one begins."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.ids import JobId
from packhorse.model.job import Job, State
from packhorse.model.page import Filter, Page
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import UNREADABLE

_VERDICTS = {State.DONE: "d", State.DEAD: "k", State.CANCELLED: "c"}
_SCORED = {State.SCHEDULED: ("due", 4), State.WAITING: ("waits", 0), State.RUNNING: ("leases", 0)}
_STATES = tuple(State)


class Spot(msgspec.Struct, frozen=True, array_like=True):
    """A state of a queue and how far it was looked through; running jobs of all queues stand in one place.

    The queue is as the server has it: other programs may have made one whose name is not UTF-8.
    """

    state: State
    queue: bytes
    position: tuple[bytes | int, ...] = ()

    @property
    def rank(self) -> tuple[int, bytes]:
        """Spots are visited in this order."""
        return _STATES.index(self.state), self.queue

    def at(self, *position: bytes | int) -> "Spot":
        """The same place, further on."""
        return Spot(self.state, self.queue, position)


class Look(msgspec.Struct, frozen=True):
    """Ids with the spot behind each, and where to go on: nowhere if the place was looked through."""

    found: Sequence[tuple[JobId, Spot]]
    going_on: Spot | None


class Pages:
    """Finds jobs."""

    def __init__(self, keyspace: Keyspace, get: Callable[[Sequence[JobId]], Awaitable[list[Job | None]]]) -> None:
        self._keyspace = keyspace
        self._get = get

    async def find(self, filter: Filter, limit: int, cursor: str | None) -> Page[Job]:
        """Look at no more than a thousand jobs and answer those that fit."""
        first = None if cursor is None else _spot(cursor)
        items: list[Job] = []
        looked = 0
        for spot in await self._spots(filter, first):
            here: Spot | None = spot
            while here is not None:
                if looked >= caps.LOOKED_AT:
                    return Page(tuple(items), _cursor(here))
                look = await self._look(here, min(caps.ITEMS, caps.LOOKED_AT - looked))
                looked += len(look.found) or 1
                for job, behind in await self._jobs(look):
                    if filter.fits(job):
                        items.append(job)
                        if len(items) == limit:
                            return Page(tuple(items), _cursor(behind))
                here = look.going_on
        return Page(tuple(items))

    async def _spots(self, filter: Filter, first: Spot | None) -> list[Spot]:
        """The places to look through, without those that are empty by their counter."""
        fields = await self._keyspace.read("HGETALL", "counts")
        spots = set()
        for field, number in zip(fields[::2], fields[1::2], strict=True):
            queue, _, word = field.rpartition(b"\x1f")
            state = State(word.decode()) if word and int(number) > 0 else None
            if state and filter.queue in (None, queue.decode(errors="replace")) and filter.state in (None, state):
                spots.add(Spot(state, b"" if state is State.RUNNING else queue))
        if first is None:
            return sorted(spots, key=lambda spot: spot.rank)
        return [first, *sorted((spot for spot in spots if spot.rank > first.rank), key=lambda spot: spot.rank)]

    async def _jobs(self, look: Look) -> list[tuple[Job, Spot]]:
        """The jobs that still stand where they were seen."""
        jobs = await self._get([job for job, _ in look.found])
        return [
            (job, spot)
            for job, (_, spot) in zip(jobs, look.found, strict=True)
            if job is not None
            and job.state is spot.state
            and (not spot.queue or job.queue in (spot.queue.decode(errors="replace"), UNREADABLE.queue))
        ]

    async def _look(self, spot: Spot, limit: int) -> Look:
        if spot.state is State.READY:
            return await self._ready(spot, limit)
        if spot.state in _VERDICTS:
            return await self._ended(spot, limit)
        return await self._scored(spot, limit)

    async def _scored(self, spot: Spot, limit: int) -> Look:
        kind, skip = _SCORED[spot.state]
        score, member = spot.position or ("", "")
        rows = await self._keyspace.run(
            "find_scored", kind=kind, name=spot.queue, score=score, member=member, limit=limit
        )
        found = [(name[skip:], spot.at(mark, name)) for name, mark in zip(rows[::2], rows[1::2], strict=True)]
        return Look(found, found[-1][1] if len(found) == limit else None)

    async def _ready(self, spot: Spot, limit: int) -> Look:
        priority, position = spot.position or (0, 0)
        done, last, at, rows = await self._keyspace.run(
            "find_ready", queue=spot.queue, priority=priority, position=position, limit=limit
        )
        found = [
            (id, spot.at(int(each), int(place) + 1))
            for each, place, id in zip(rows[::3], rows[1::3], rows[2::3], strict=True)  # noqa: A001
        ]
        return Look(found, None if done == b"1" else spot.at(int(last), int(at)))

    async def _ended(self, spot: Spot, limit: int) -> Look:
        done, going_on, rows = await self._keyspace.run(
            "find_ended", queue=spot.queue, verdict=_VERDICTS[spot.state], limit=limit, positions=spot.position
        )
        places = dict(zip(spot.position[::2], spot.position[1::2], strict=True))
        found = []
        for shelf, place, id in zip(rows[::3], rows[1::3], rows[2::3], strict=True):  # noqa: A001
            places[int(shelf)] = int(place)
            found.append((id, spot.at(*_flat(places))))
        return Look(found, None if done == b"1" else spot.at(*map(int, going_on)))


def _flat(places: dict[Any, Any]) -> list[Any]:
    return [number for pair in places.items() for number in pair]


def _cursor(spot: Spot) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(spot)).decode()


def _spot(cursor: str) -> Spot:
    try:
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor), type=Spot)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise InvalidOption("cursor", cursor, "give the cursor of the page before, unchanged") from error
