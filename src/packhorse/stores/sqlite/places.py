"""Where jobs stand: the only functions that put a job into a place or take it out of one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from packhorse.model.job import State
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json


class Flag:
    """What a place knows of its job, so that plain jobs (0) never need a look at their record."""

    SLOT = 1
    LANE = 2
    PARENT = 4
    UNIQUE = 8
    STARTED = 16


class PlacedJob(NamedTuple):
    """A job on its way from one place to the next."""

    seq: int
    queue: str
    priority: int
    attempt: int
    lost: int
    flags: int


class JobFacts(NamedTuple):
    """What the record says beyond its place."""

    seq: int
    id: bytes
    queue: str
    priority: int
    due: int
    flags: int
    lane: str | None
    lane_limit: int
    parent: bytes | None
    children: int
    unique_key: str | None


class WaitEntry(NamedTuple):
    """Why a job waits."""

    reason: WaitReason
    detail: str = ""
    lane: str | None = None
    pending: int | None = None
    on: On | None = None


LEAVE = {
    State.READY: SQL.leave_ready,
    State.SCHEDULED: SQL.leave_scheduled,
    State.RUNNING: SQL.leave_running,
    State.WAITING: SQL.leave_waiting,
}


def facts(step: UnitOfWork, seqs: Sequence[int]) -> dict[int, JobFacts]:
    """The facts of jobs by rowid."""
    return {row[0]: JobFacts(*row) for row in step.rows(SQL.facts, as_json(seqs))}


def leave(step: UnitOfWork, state: State, placed_jobs: Sequence[tuple[Any, ...]]) -> None:
    """Take jobs (each its rowid, its queue and whatever else) out of a place; ends are left by prune, drop and replay only."""
    if not placed_jobs:
        return
    step.run(LEAVE[state], as_json([placed[0] for placed in placed_jobs]))
    _count(step, state, [placed[1] for placed in placed_jobs], -1)


def to_ready(step: UnitOfWork, placed_jobs: Sequence[tuple[PlacedJob, int]]) -> None:
    """Make jobs ready, each since its moment, in this order."""
    if placed_jobs:
        _line_up(step, SQL.put_ready, State.READY, placed_jobs)
        step.work = True


def to_scheduled(step: UnitOfWork, placed_jobs: Sequence[tuple[PlacedJob, int]]) -> None:
    """Schedule jobs, each for its moment."""
    if placed_jobs:
        _line_up(step, SQL.put_scheduled, State.SCHEDULED, placed_jobs)


def _line_up(step: UnitOfWork, statement: str, state: State, placed_jobs: Sequence[tuple[PlacedJob, int]]) -> None:
    number = step.next(len(placed_jobs))
    rows = [
        (seq, queue, priority, moment, number + index, attempt, lost, flags)
        for index, ((seq, queue, priority, attempt, lost, flags), moment) in enumerate(placed_jobs)
    ]
    step.put(statement, rows)
    _count(step, state, [placed.queue for placed, _ in placed_jobs], 1)


def _count(step: UnitOfWork, state: State, queues: Iterable[str], by: int) -> None:
    for queue, count in Counter(queues).items():
        step.count(queue, state, by * count)


def to_waiting(step: UnitOfWork, placed_jobs: Sequence[tuple[PlacedJob, WaitEntry]]) -> None:
    """Make jobs wait, in this order."""
    if not placed_jobs:
        return
    now, number = step.now, step.next(len(placed_jobs))
    rows = []
    for (seq, queue, priority, attempt, lost, flags), (reason, detail, lane, pending, on) in placed_jobs:
        kind, key, after = (on.kind, on.key, on.after) if on else (None, None, None)
        rows.append((
            seq, queue, priority, now, number, attempt, lost, flags, str(reason), detail, lane, pending, kind, key, after
        ))  # fmt: skip
        number += 1
    step.put(SQL.put_waiting, rows)
    _count(step, State.WAITING, [placed.queue for placed, _ in placed_jobs], 1)
