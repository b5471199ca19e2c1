"""Where jobs stand: the only functions that put a job into a place or take it out of one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from packhorse.model.job import State
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.step import SQL, Step, as_json


class Flag:
    """What a place knows of its job, so that plain jobs (0) never need a look at their record."""

    SLOT = 1
    LANE = 2
    PARENT = 4
    UNIQUE = 8
    STARTED = 16


class Spot(NamedTuple):
    """A job on its way from one place to the next."""

    seq: int
    queue: str
    priority: int
    attempt: int
    lost: int
    flags: int


class Facts(NamedTuple):
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


class Parked(NamedTuple):
    """Why a job waits."""

    reason: WaitReason
    detail: str = ""
    lane: str | None = None
    pending: int | None = None
    on: On | None = None


LEAVE = {
    State.READY: SQL.leave_ready,
    State.SCHEDULED: SQL.leave_due,
    State.RUNNING: SQL.leave_leases,
    State.WAITING: SQL.leave_waits,
}


def facts(step: Step, seqs: Sequence[int]) -> dict[int, Facts]:
    """The facts of jobs by rowid."""
    return {row[0]: Facts(*row) for row in step.rows(SQL.facts, as_json(seqs))}


def leave(step: Step, state: State, spots: Sequence[tuple[Any, ...]]) -> None:
    """Take jobs (each its rowid, its queue and whatever else) out of a place; ends are left by prune, drop and replay only."""
    if not spots:
        return
    step.run(LEAVE[state], as_json([spot[0] for spot in spots]))
    _count(step, state, [spot[1] for spot in spots], -1)


def to_ready(step: Step, spots: Sequence[tuple[Spot, int]]) -> None:
    """Make jobs ready, each since its moment, in this order."""
    if spots:
        _line_up(step, SQL.put_ready, State.READY, spots)
        step.work = True


def to_due(step: Step, spots: Sequence[tuple[Spot, int]]) -> None:
    """Schedule jobs, each for its moment."""
    if spots:
        _line_up(step, SQL.put_due, State.SCHEDULED, spots)


def _line_up(step: Step, statement: str, state: State, spots: Sequence[tuple[Spot, int]]) -> None:
    number = step.next(len(spots))
    rows = [
        (seq, queue, priority, moment, number + index, attempt, lost, flags)
        for index, ((seq, queue, priority, attempt, lost, flags), moment) in enumerate(spots)
    ]
    step.put(statement, rows)
    _count(step, state, [spot.queue for spot, _ in spots], 1)


def _count(step: Step, state: State, queues: Iterable[str], by: int) -> None:
    for queue, count in Counter(queues).items():
        step.count(queue, state, by * count)


def to_waits(step: Step, spots: Sequence[tuple[Spot, Parked]]) -> None:
    """Make jobs wait, in this order."""
    if not spots:
        return
    now, number = step.now, step.next(len(spots))
    rows = []
    for (seq, queue, priority, attempt, lost, flags), (reason, detail, lane, pending, on) in spots:
        kind, key, after = (on.kind, on.key, on.after) if on else (None, None, None)
        rows.append((
            seq, queue, priority, now, number, attempt, lost, flags, str(reason), detail, lane, pending, kind, key, after
        ))  # fmt: skip
        number += 1
    step.put(SQL.put_waits, rows)
    _count(step, State.WAITING, [spot.queue for spot, _ in spots], 1)
