"""Jobs go to the store: by its own connections, or as part of a transaction of the caller's own."""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from packhorse.errors import InvalidOption
from packhorse.jobs import connections
from packhorse.jobs.call import Call
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.portal import PORTAL
from packhorse.model.ids import new_ids
from packhorse.model.job import NewJob, Receipt

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk
    from packhorse.jobs.flows import Flow

R = TypeVar("R")


async def enqueue(call: Call[R]) -> JobHandle[R]:
    """Store the job of one call."""
    return call.handle(await send(call.target.desk, [call.job_within()], call.wish.within))


def send(desk: "Desk", jobs: Sequence[NewJob], within: object | None) -> Awaitable[list[Receipt]]:
    """Store jobs, all or none."""
    return desk.send(jobs) if within is None else _send_within(desk, jobs, within)


async def _send_within(desk: "Desk", jobs: Sequence[NewJob], within: object) -> list[Receipt]:
    store = await desk.store()
    return await connections.run(within, store.jobs.within().enqueue(jobs))


def send_blocking(desk: "Desk", jobs: Sequence[NewJob], within: object | None) -> list[Receipt]:
    """Store jobs for code without an event loop; within a transaction, on the calling thread."""
    if within is None:
        return PORTAL.run(desk.send(jobs))
    mine = connections.blocking(within)
    store = PORTAL.run(desk.store())
    return mine.run(store.jobs.within().enqueue(jobs))


class Parcel:
    """Calls and flows that are sent together."""

    def __init__(self, calls: Sequence["Call[Any] | Flow[Any]"], within: object | None) -> None:
        self._calls = calls
        self.jobs: list[NewJob] = []
        self._ends: list[int] = []  # how many jobs there are up to each call, its own among them
        for call, one in zip(calls, new_ids(len(calls)), strict=True):
            if isinstance(call, Call):
                self.jobs.append(call.job_within(one))
            else:
                self.jobs += call.jobs()
            self._ends.append(len(self.jobs))
        self.within = _said_once(calls, within)

    def handles(self, receipts: Sequence[Receipt]) -> list[Any]:
        """The handle of what came of each."""
        parts = zip(self._calls, [0, *self._ends], self._ends, strict=False)  # the last end begins nothing
        return [call.handle(receipts[begin:end]) for call, begin, end in parts]


def _said_once(calls: Sequence["Call[Any] | Flow[Any]"], within: object | None) -> object | None:
    said = [within, *(call.wish.within for call in calls if isinstance(call, Call))]
    named = [one for one in said if one is not None]
    if any(one is not named[0] for one in named):
        raise InvalidOption("within", named[-1], "what is enqueued together is part of one transaction: give it once")
    return named[0] if named else None
