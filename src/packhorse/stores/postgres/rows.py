"""Rows of the database to values of the model."""

from collections.abc import Sequence

import msgspec

from packhorse.model.event import Event
from packhorse.model.ids import Token
from packhorse.model.job import Failure, Job, State, stored_failure
from packhorse.model.lease import Lease
from packhorse.model.queue import QueueStats
from packhorse.model.reason import reason_of
from packhorse.model.record import Record
from packhorse.model.worker import Worker, stored_worker
from packhorse.stores.postgres.database import Row

_STATES = (
    State.SCHEDULED, State.READY, State.RUNNING, State.WAITING, State.DONE, State.DEAD, State.CANCELLED
)  # fmt: skip
_worker = msgspec.json.Decoder(Worker)


def job(row: Row) -> Job:
    """A job with all that is known of it, from ``get.sql``."""
    return Job(
        id=row[0], task=row[1], queue=row[2], payload=row[3], headers=row[4], priority=row[5], born=row[6],
        state=State(row[7]), since=row[8], tenant=row[9], lane=row[10], lane_limit=row[11], parent=row[12],
        unique=row[13], reason=reason_of(row[14]), detail=row[15], attempt=row[16], lost=row[17],
        worker=row[18], until=row[19], cancelling=row[20], children=row[21], delivered=row[22], progress=row[23],
        result=row[24], failures=failures(row[25], row[26], row[27]),
    )  # fmt: skip


def failures(errors: Sequence[bytes] | None, attempts: Sequence[int], moments: Sequence[int]) -> tuple[Failure, ...]:
    """What went wrong in the tries of a job, oldest first."""
    return tuple(
        stored_failure(error, attempt, at)
        for error, attempt, at in zip(errors or (), attempts or (), moments or (), strict=True)
    )


def lease(token: Token, fence: int, row: Row) -> Lease:
    """A lease under the token of its ask, from the rows of ``exchange.sql``."""
    return Lease(
        id=row[2], token=token, claimed=row[3], until=row[4], task=row[5], queue=row[6], payload=row[7],
        headers=row[8], priority=row[9], attempt=row[10], lost=row[11], born=row[12], lane=row[13], parent=row[14],
        fence=fence,
    )  # fmt: skip


def counts(numbers: Sequence[int]) -> dict[State, int]:
    """Jobs by state, from seven columns in the order of the states; those without jobs are left out."""
    return {state: number for state, number in zip(_STATES, numbers, strict=True) if number}


def stats(row: Row) -> QueueStats:
    """A queue at a glance, from ``stats.sql``."""
    return QueueStats(row[0], row[1], counts(row[2:9]), row[9], row[10])


def record(row: Row) -> Record:
    """A record."""
    return Record(row[0], row[1], row[2], row[3], row[4], row[5])


def event(stream: str, row: Row) -> Event:
    """An event of a stream."""
    return Event(stream, row[0], row[1], row[2], row[3])


def worker(row: Row) -> Worker | None:
    """A worker as it last said, seen when it said so."""
    return stored_worker(_worker, row[0], row[1])
