"""Actions on many jobs: the states they are for, and how jobs are found and written page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from packhorse.errors import InvalidOption
from packhorse.jobs.job import Job
from packhorse.jobs.search import PAGE_SIZE, Search
from packhorse.model.ids import JobId
from packhorse.model.job import State, StoredJob
from packhorse.model.limits import RESERVED
from packhorse.model.reason import WaitReason
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

Write = Callable[[Store, Sequence[JobId]], Awaitable[list[bool]]]

# The end of one job can make another ready. Waiting jobs are written first, so that none is missed.
PENDING = (State.WAITING, State.SCHEDULED, State.READY)
OPEN = (*PENDING, State.RUNNING)
ENDED = (State.DEAD, State.CANCELLED, State.DONE)


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action on jobs: its states, the call that says for each job whether it was done, and whether it was done before."""

    name: str
    past: str
    """Its past participle."""
    states: tuple[State, ...]
    write: Write
    was_done: Callable[[StoredJob | None, int], bool]
    """Whether a job that was in one of the states at a moment has had the action since."""

    waiting_for: WaitReason | None = None
    """Why a waiting job must wait; None if that does not matter."""

    def searches(self, search: Search) -> list[Search]:
        """What to look for, one state after the other; InvalidOption for a state that the action is not for."""
        wanted = search.filter.state
        if wanted is not None and wanted not in self.states:
            raise InvalidOption("state", str(wanted), f"a job that is {wanted} cannot be {self.past}")
        made = [replace(search, state=state.value) for state in self.states if wanted in (None, state)]
        if self.waiting_for is None:
            return made
        why = self.waiting_for.value
        return [
            replace(one, reason=why) if one.state == State.WAITING else one
            for one in made
            if one.state != State.WAITING or one.reason in (None, why)
        ]

    def is_for(self, job: StoredJob) -> bool:
        """Whether the action is for a job in its present state."""
        return job.state in self.states and (
            self.waiting_for is None or job.state is not State.WAITING or job.reason is self.waiting_for
        )


class PassPlace(msgspec.Struct, frozen=True):
    """Where a pass over selected jobs continues: in which search, after which page."""

    search: int = 0
    cursor: str | None = None


async def pages(
    client: "Client", searches: Sequence[Search], place: PassPlace | None = None
) -> AsyncIterator[tuple[list[Job], PassPlace]]:
    """Find the jobs of searches a page at a time, one search after the other; with each page comes the place behind it.

    Jobs of Packhorse's own queues are left out, unless one of these is searched.
    """
    begin = place or PassPlace()
    for number in range(begin.search, len(searches)):
        search, cursor = searches[number], begin.cursor if number == begin.search else None
        while True:
            page = await search.page(client, PAGE_SIZE, cursor, bodies=False)
            cursor = page.cursor
            behind = PassPlace(number + 1) if cursor is None else PassPlace(number, cursor)
            yield [job for job in page.items if search.queue or not job.queue.startswith(RESERVED)], behind
            if cursor is None:
                break


def batches(ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    """Split ids into pages."""
    for begin in range(0, len(ids), PAGE_SIZE):
        yield ids[begin : begin + PAGE_SIZE]


async def _replay(store: Store, ids: Sequence[JobId]) -> list[bool]:
    return await store.jobs.replay(ids)


async def _cancel(store: Store, ids: Sequence[JobId]) -> list[bool]:
    """Cancel jobs; a running one stays running until its worker stops it. Ended jobs are not counted."""
    before = await store.jobs.get(ids, bodies=False)
    after = await store.jobs.cancel(ids)
    return [
        was is not None and not was.state.ended and now in (State.CANCELLED, State.RUNNING)
        for was, now in zip(before, after, strict=True)
    ]


async def _drop(store: Store, ids: Sequence[JobId]) -> list[bool]:
    return await store.jobs.drop(ids)


async def _promote(store: Store, ids: Sequence[JobId]) -> list[bool]:
    return await store.jobs.promote(ids)


def _was_replayed(job: StoredJob | None, moment: int) -> bool:
    return job is None or not REPLAY.is_for(job) or job.since > moment  # it has died again


def _was_cancelled(job: StoredJob | None, _moment: int) -> bool:
    return job is None or job.state is State.CANCELLED or job.cancelling


def _was_dropped(job: StoredJob | None, _moment: int) -> bool:
    return job is None


def _was_promoted(job: StoredJob | None, _moment: int) -> bool:
    return job is None or not PROMOTE.is_for(job)


REPLAY = BulkAction("replay", "replayed", (State.DEAD, State.CANCELLED), _replay, _was_replayed)
CANCEL = BulkAction("cancel", "cancelled", OPEN, _cancel, _was_cancelled)
CANCEL_PENDING = replace(CANCEL, name="cancel pending", states=PENDING)
DROP = BulkAction("drop", "removed", (*OPEN, *ENDED), _drop, _was_dropped)
PURGE = replace(DROP, name="purge")
PROMOTE = BulkAction(
    "promote", "promoted", (State.SCHEDULED, State.WAITING), _promote, _was_promoted, WaitReason.INTERVENTION
)
ACTIONS = {action.name: action for action in (REPLAY, CANCEL, CANCEL_PENDING, DROP, PURGE, PROMOTE)}
