"""Jobs come in: records are written, and each goes to its first place."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from packhorse.model.event import Change
from packhorse.model.ids import JobId
from packhorse.model.job import PLAIN_FIELDS, NewJob, Receipt, State, Until, all_plain, sets_only
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.places import Flag, JobFacts, PlacedJob, WaitEntry, to_waiting
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json, range_list

_independent = sets_only(*PLAIN_FIELDS, "delay", "at", "lane", "lane_limit")


def enqueue(step: UnitOfWork, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Store jobs, all or none, and say for each which job stands for it."""
    receipts = _plain(step, jobs)
    if receipts is None and len(jobs) > 1 and _independent(jobs):
        receipts = _together(step, jobs)
    return [_one(step, job) for job in jobs] if receipts is None else receipts


def _plain(step: UnitOfWork, jobs: Sequence[NewJob]) -> list[Receipt] | None:
    """Store plain jobs without a tenant, by far the most; None, with nothing written, if some are not like that."""
    if not all_plain(jobs):
        return None
    now, seq, rows = step.now, step.number, []
    for job in jobs:
        if job.tenant is not None:
            return None
        seq += 1
        rows.append((
            seq, bytearray(job.id), job.queue, job.task, job.priority, bytearray(job.payload), bytearray(job.headers)
        ))  # fmt: skip
    first = _written(step, SQL.add_plain, rows, now)
    if first is None:
        return None
    _ready(step, first, [job.queue for job in jobs])
    return _receipts(step, [job.id for job in jobs])


def _together(step: UnitOfWork, jobs: Sequence[NewJob]) -> list[Receipt] | None:
    """All jobs at once; None, with nothing written, if some id is taken."""
    now, first = step.now, step.number + 1
    known = {seq: _facts(seq, job, max(job.at, now + job.delay)) for seq, job in enumerate(jobs, first)}
    rows = [
        (
            fact.seq, fact.id, fact.queue, job.task, fact.priority, now, fact.due, fact.flags,
            job.payload, job.headers, job.tenant, fact.lane, fact.lane_limit,
        )
        for fact, job in zip(known.values(), jobs, strict=True)
    ]  # fmt: skip
    if _written(step, SQL.add_jobs, rows) is None:
        return None
    admit(step, [(_placed(fact), fact.due) for fact in known.values()], known)
    return _receipts(step, [job.id for job in jobs])


def _written(step: UnitOfWork, statement: str, rows: Sequence[tuple[Any, ...]], *shared: int) -> int | None:
    """Write records, and take their numbers: the first of them; None, with nothing written, if some id is taken."""
    first = step.number + 1
    if _any_tombstone(step, [row[1] for row in rows]):
        return None
    if step.put(statement, rows, *shared) != len(rows):
        step.run(SQL.take_back_jobs, first)
        return None
    return step.next(len(rows))


def _any_tombstone(step: UnitOfWork, ids: list[Any]) -> bool:
    """Whether some id is that of a pruned job."""
    if len(ids) == 1:  # without JSON, which takes longer than the look
        return step.row(SQL.has_tombstone, ids[0]) is not None
    return step.row(SQL.any_tombstone, b"".join(ids), as_json(range_list(len(ids)))) is not None


def _ready(step: UnitOfWork, first: int, queues: list[str]) -> None:
    """Make records ready that were written just now, in the order of their numbers."""
    step.run(SQL.ready_new, first, step.number, step.now)
    step.work = True
    for queue, count in Counter(queues).items():
        step.count(queue, State.READY, count)


def _receipts(step: UnitOfWork, ids: list[JobId]) -> list[Receipt]:
    step.changed(Change.ENQUEUED, ids)
    return [Receipt(job, True) for job in ids]


def _one(step: UnitOfWork, job: NewJob) -> Receipt:
    if step.row(SQL.taken, job.id):
        return Receipt(job.id, False)
    if job.unique is not None and (holder := step.row(SQL.unique_holder, job.unique.key, step.now)):
        return Receipt(holder[0], False)
    due = max(job.at, step.now + job.delay)
    fact = _facts(step.next(), job, due)
    step.run(
        SQL.add_job, fact.seq, job.id, job.queue, job.task, job.priority, step.now, due, fact.flags, job.payload, job.headers,
        job.tenant, job.lane, job.lane_limit, job.parent, job.children, fact.unique_key,
    )  # fmt: skip
    if job.unique is not None:
        until = step.now + job.unique.window if job.unique.until is Until.WINDOW else None
        step.run(SQL.take_unique, job.unique.key, job.id, until)
    if job.children:
        to_waiting(step, [(_placed(fact), WaitEntry(WaitReason.CHILDREN, pending=job.children))])
    else:
        admit(step, [(_placed(fact), max(due, step.now))], {fact.seq: fact})
    step.changed(Change.ENQUEUED, [job.id])
    return Receipt(job.id, True)


def _placed(fact: JobFacts) -> PlacedJob:
    return PlacedJob(fact.seq, fact.queue, fact.priority, 0, 0, fact.flags)


def _facts(seq: int, job: NewJob, due: int) -> JobFacts:
    flags = 0
    if job.lane is not None:
        flags |= Flag.LANE
    if job.parent is not None:
        flags |= Flag.PARENT
    if job.unique is not None and job.unique.until is not Until.WINDOW:
        flags |= Flag.STARTED if job.unique.until is Until.STARTED else Flag.UNIQUE
    key = job.unique.key if job.unique else None
    return JobFacts(
        seq,
        job.id,
        job.queue,
        job.priority,
        due,
        flags,
        job.lane,
        job.lane_limit,
        job.parent,
        job.children,
        key,
    )
