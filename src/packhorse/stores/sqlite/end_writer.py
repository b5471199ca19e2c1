"""Ends of jobs: add them to a retention group, free unique keys, hand on slots, notify parents."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress

from packhorse.model.event import Change
from packhorse.model.ids import JobId, Token
from packhorse.model.job import Retention, State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.model.record import DELIVERED, delivery_key
from packhorse.stores.sqlite.lanes import Lane, admit, hand_on
from packhorse.stores.sqlite.places import Flag, PlacedJob, facts, leave
from packhorse.stores.sqlite.records import write_value
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json

DROPPED = "dropped"

LeaseRow = tuple[
    int, str, int, int, int, int, Token, int, int
]  # a PlacedJob, then token, step and whether it is cancelling


class EndWriter:
    """Ends gathered in one step and written together by ``flush``; a unique key is free at once."""

    def __init__(self, step: UnitOfWork) -> None:
        self._step = step
        self._rows: list[tuple[object, ...]] = []
        self._groups: dict[tuple[str, State, Retention], int] = {}
        self._leaving: list[tuple[PlacedJob, str, bytes | None]] = []

    def add(
        self,
        placed: PlacedJob,
        state: State,
        keep: Retention,
        token: Token | None = None,
        *,
        reason: str | None = None,
        result: bytes | None = None,
    ) -> None:
        """A job has left its place and ends like this; the token is that of the lease it ended under."""
        seq, queue, _, attempt, lost, flags = placed
        step, group = self._step, self._group(queue, state, keep)
        self._rows.append((seq, group, step.next(), step.now, token, attempt, lost, reason, result))
        step.count(queue, state, 1)
        if flags:
            self.depart(placed, state, result)

    def add_done(self, jobs: Sequence[tuple[LeaseRow, Done, JobId]]) -> None:
        """The same for many jobs that worked, with what they share looked up once."""
        step, add, now, done = self._step, self._rows.append, self._step.now, State.DONE
        of, kept, group = None, None, 0
        for (seq, queue, priority, attempt, lost, flags, token, _, _), outcome, _ in jobs:
            keep, result = outcome.keep, outcome.result
            if queue != of or keep is not kept:
                of, kept, group = queue, keep, self._group(queue, done, keep)
            step.number += 1
            add((seq, group, step.number, now, token, attempt, lost, None, result))
            if flags:
                self.depart(PlacedJob(seq, queue, priority, attempt, lost, flags), done, result)
        for queue, count in Counter([row[1] for row, _, _ in jobs]).items():
            step.count(queue, done, count)

    def write_plain(self, jobs: Sequence[tuple[Settlement, int]]) -> list[bool]:
        """End jobs that worked and on which nothing hangs, without a look at them before, and say which did end.

        Left out is one whose lease is not held, or is held for a job that is not plain.
        """
        step, first = self._step, self._step.next(len(jobs))
        lots: dict[tuple[Token, str, Retention], list[tuple[object, ...]]] = {}
        for number, (settlement, seq) in enumerate(jobs, first):
            lease, done = settlement.lease, settlement.outcome
            assert isinstance(done, Done)
            row = (seq, number, done.result and bytearray(done.result))
            lots.setdefault((lease.token, lease.queue, done.keep), []).append(row)
        written = 0
        for (token, queue, keep), rows in lots.items():
            written += step.put(SQL.end_plain, rows, self._group(queue, State.DONE, keep), step.now, token, queue)
        ended = [True] * len(jobs) if written == len(jobs) else _ended_since(step, jobs, first)
        gone = [(seq, settlement.lease.queue, settlement.lease.id) for settlement, seq in compress(jobs, ended)]
        if gone:
            leave(step, State.RUNNING, gone)
            for queue, count in Counter([queue for _, queue, _ in gone]).items():
                step.count(queue, State.DONE, count)
            step.changed(Change.DONE, [job for _, _, job in gone])
            step.ends = True
        return ended

    def depart(self, placed: PlacedJob, word: str, result: bytes | None = None) -> None:
        """What goes with any end, also with being dropped."""
        if placed.flags & (Flag.UNIQUE | Flag.STARTED):
            self._step.run(SQL.free_unique_keys, as_json([placed.seq]))
        if placed.flags & (Flag.SLOT | Flag.PARENT):
            self._leaving.append((placed, word, result))

    def flush(self) -> None:
        """Write the ends, then hand on slots and tell parents."""
        step = self._step
        if self._rows:
            step.put(SQL.put_ended, self._rows)
            step.ends = True
            self._rows = []
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            known = {
                row[0]: row for row in step.rows(SQL.lanes_and_parents, as_json([placed[0] for placed, *_ in leaving]))
            }
            freed: Counter[Lane] = Counter()
            for placed, word, result in leaving:
                _, job, lane, parent = known[placed.seq]
                if placed.flags & Flag.SLOT:
                    freed[placed.queue, lane] += 1
                if parent is not None:
                    outcome = word.encode() if result is None else word.encode() + b" " + result
                    _deliver(step, parent, job, outcome)
            hand_on(step, freed)

    def _group(self, queue: str, state: State, keep: Retention) -> int:
        known = self._groups.get((queue, state, keep))
        if known is not None:
            return known
        rule = (queue, state, keep.count, keep.age)
        row = self._step.row(SQL.find_retention_group, *rule)
        group = row[0] if row else int(self._step.run(SQL.add_retention_group, *rule).lastrowid or 0)
        self._groups[queue, state, keep] = group
        return group


def _ended_since(step: UnitOfWork, jobs: Sequence[tuple[Settlement, int]], first: int) -> list[bool]:
    """Which of these have an end with this number or a later one; the same lease a second time has none."""
    found = set(step.rows(SQL.ended_since, as_json([seq for _, seq in jobs]), first))
    ended = []
    for settlement, seq in jobs:
        one = (seq, settlement.lease.token)
        ended.append(one in found)
        found.discard(one)
    return ended


def take_back_delivery(step: UnitOfWork, parent: JobId, child: JobId) -> None:
    """Take back what a job that will run again has left for its parent."""
    if step.run(SQL.drop_record, DELIVERED, delivery_key(parent, child)).rowcount:
        step.run(SQL.take_back_delivery, parent)


def _deliver(step: UnitOfWork, job: JobId, child: JobId, outcome: bytes) -> None:
    """Leave a child's outcome for its parent, count it if it is new, and let the parent go when it was the last."""
    row = step.row(SQL.parent, job)
    if row is None:
        return
    (parent,) = row
    _, new = write_value(step, DELIVERED, delivery_key(job, child), outcome)
    if not new:
        return
    (delivered,) = step.row(SQL.deliver, parent)
    waiting = step.row(SQL.pending_parent, parent, delivered)
    if waiting is not None:
        placed = PlacedJob(parent, *waiting)
        known = facts(step, [parent])
        leave(step, State.WAITING, [placed])
        moment = step.now if step.row(SQL.tried, parent) else max(known[parent].due, step.now)
        admit(step, [(placed, moment)], known)
