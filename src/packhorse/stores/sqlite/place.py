"""Where jobs stand: the only functions that put a job into a place or take it out of one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def leave(step: Step, state: State, spots: Sequence[Spot]) -> None:
    """Take jobs out of a place; ends are left by prune, drop and replay only."""
    if not spots:
        return
    step.run(LEAVE[state], as_json([spot.seq for spot in spots]))
    _count(step, state, [spot.queue for spot in spots], -1)


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
        (spot.seq, spot.queue, spot.priority, moment, number + index, spot.attempt, spot.lost, spot.flags)
        for index, (spot, moment) in enumerate(spots)
    ]
    step.run(statement, as_json(rows))
    _count(step, state, [spot.queue for spot, _ in spots], 1)


def _count(step: Step, state: State, queues: Iterable[str], by: int) -> None:
    for queue, count in Counter(queues).items():
        step.count(queue, state, by * count)


def to_waits(step: Step, spots: Iterable[tuple[Spot, Parked]]) -> None:
    """Make jobs wait, in this order."""
    rows = []
    for spot, parked in spots:
        on = (parked.on.kind, parked.on.key, parked.on.after) if parked.on else (None, None, None)
        rows.append((
            spot.seq, spot.queue, spot.priority, step.now, step.next(), spot.attempt, spot.lost, spot.flags,
            parked.reason, parked.detail, parked.lane, parked.pending, *on,
        ))  # fmt: skip
        step.count(spot.queue, State.WAITING, 1)
    if rows:
        step.run(SQL.put_waits, as_json(rows))
