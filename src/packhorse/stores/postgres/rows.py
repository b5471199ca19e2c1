"""Rows of the database to values of the model."""

from collections.abc import Sequence
from typing import Any

import msgspec

from packhorse.model.event import Event
from packhorse.model.ids import Token
from packhorse.model.job import Failure, PrunedDead, State, StoredJob, stored_failure
from packhorse.model.lease import Lease
from packhorse.model.queue import ENQUEUED, QueueStats, queue_stats
from packhorse.model.reason import reason_of
from packhorse.model.record import Record
from packhorse.model.worker import WorkerInfo, stored_worker
from packhorse.stores.postgres.database import Row

_STATES = (
    State.SCHEDULED, State.READY, State.RUNNING, State.WAITING, State.DONE, State.DEAD, State.CANCELLED
)  # fmt: skip
_worker = msgspec.json.Decoder(WorkerInfo)


def job(row: Row, *, bodies: bool = True) -> StoredJob:
    """A job with all that is known of it, from ``get.sql``."""
    return StoredJob(
        id=row[0], task=row[1], queue=row[2], payload=row[3], headers=row[4], priority=row[5], enqueued_at=row[6],
        state=State(row[7]), since=row[8], tenant=row[9], lane=row[10], lane_limit=row[11], parent=row[12],
        unique=row[13], reason=reason_of(row[14]), detail=row[15], attempt=row[16], lost=row[17],
        worker=row[18], until=row[19], cancelling=row[20], children=row[21], delivered=row[22], progress=row[23],
        result=row[24], failures=failures(row[25], row[26], row[27], bodies=bodies),
    )  # fmt: skip


def failures(
    errors: Sequence[bytes] | None, attempts: Sequence[int], moments: Sequence[int], *, bodies: bool
) -> tuple[Failure, ...]:
    """What went wrong in the tries of a job, oldest first."""
    return tuple(
        stored_failure(error, attempt, at, bodies=bodies)
        for error, attempt, at in zip(errors or (), attempts or (), moments or (), strict=True)
    )


def leases(token: Token, fence: int, columns: Sequence[Sequence[Any] | None]) -> tuple[Lease, ...]:
    """The leases that ``exchange`` answers as columns, under the token of their claim."""
    if columns[0] is None:
        return ()
    return tuple(
        Lease(
            id=row[0], token=token, claimed=row[1], until=row[2], task=row[3], queue=row[4], payload=row[5],
            headers=row[6], priority=row[7], attempt=row[8], lost=row[9], enqueued_at=row[10], lane=row[11], parent=row[12],
            fence=fence,
        )
        for row in zip(*columns, strict=True)
    )  # fmt: skip


def counts(numbers: Sequence[int]) -> dict[State, int]:
    """Jobs by state, from seven columns in the order of the states; those without jobs are left out."""
    return {state: number for state, number in zip(_STATES, numbers, strict=True) if number}


def stats(row: Row) -> QueueStats:
    """A queue at a glance, from ``stats.sql``."""
    past = {ENQUEUED: row[11], State.DONE: row[12], State.DEAD: row[13], State.CANCELLED: row[14]}
    return queue_stats(row[0], paused=row[1], counts=counts(row[2:9]), past=past, oldest_ready=row[9], next_due=row[10])


def pruned_dead(
    queues: Sequence[str] | None, counts: Sequence[int] | None, newest: Sequence[int] | None
) -> dict[str, PrunedDead]:
    """The dead jobs that a prune removed, by queue, from columns with a row for each retention group."""
    dead: dict[str, PrunedDead] = {}
    for queue, count, died in zip(queues or (), counts or (), newest or (), strict=True):
        before = dead.get(queue, PrunedDead(0, 0))
        dead[queue] = PrunedDead(before.jobs + count, max(before.newest, died))
    return dead


def record(row: Row) -> Record:
    """A record."""
    return Record(row[0], row[1], row[2], row[3], row[4], row[5])


def event(stream: str, row: Row) -> Event:
    """An event of a stream."""
    return Event(stream, row[0], row[1], row[2], row[3])


def worker(row: Row) -> WorkerInfo | None:
    """A worker as of its last beat."""
    return stored_worker(_worker, row[0], row[1])
