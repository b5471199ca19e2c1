"""Jobs come in: records are written, and each goes to its first place."""

from collections import Counter
from collections.abc import Sequence

from packhorse.model.event import Change
from packhorse.model.job import NewJob, Receipt, State, Until
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.place import Facts, Flag, Parked, Spot, to_waits
from packhorse.stores.sqlite.step import SQL, Step, as_json, range_list


def enqueue(step: Step, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Store jobs, all or none, and say for each which job stands for it."""
    if len(jobs) > 1 and all(job.unique is None and job.parent is None and not job.children for job in jobs):
        receipts = _together(step, jobs)
        if receipts is not None:
            return receipts
    return [_one(step, job) for job in jobs]


def _together(step: Step, jobs: Sequence[NewJob]) -> list[Receipt] | None:
    """All jobs at once; None, with nothing written, if some id is taken."""
    now, ids = step.now, [job.id for job in jobs]
    if len(set(ids)) != len(ids) or step.row(SQL.any_buried, b"".join(ids), as_json(range_list(len(ids)))):
        return None
    first = step.number + 1
    dues = [max(job.at, now + job.delay) for job in jobs]
    rows = [
        (
            seq, job.id, job.queue, job.task, job.priority, now, due, 0 if job.lane is None else Flag.LANE,
            job.payload, job.headers, job.tenant, job.lane, job.lane_limit,
        )
        for seq, (job, due) in enumerate(zip(jobs, dues, strict=True), first)
    ]  # fmt: skip
    if step.put(SQL.add_jobs, rows) != len(jobs):
        step.run(SQL.take_back_jobs, first)
        return None
    step.next(len(jobs))
    if max(dues) <= now and all(job.lane is None for job in jobs):
        step.run(SQL.ready_new, first, step.number, now)
        step.work = True
        for queue, count in Counter([job.queue for job in jobs]).items():
            step.count(queue, State.READY, count)
    else:
        known = {
            first + index: _facts(first + index, job, due)
            for index, (job, due) in enumerate(zip(jobs, dues, strict=True))
        }
        admit(step, [(_spot(fact), max(fact.due, now)) for fact in known.values()], known)
    step.changed(Change.ENQUEUED, ids)
    return [Receipt(job, True) for job in ids]


def _one(step: Step, job: NewJob) -> Receipt:
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
        to_waits(step, [(_spot(fact), Parked(WaitReason.CHILDREN, pending=job.children))])
    else:
        admit(step, [(_spot(fact), max(due, step.now))], {fact.seq: fact})
    step.changed(Change.ENQUEUED, [job.id])
    return Receipt(job.id, True)


def _spot(fact: Facts) -> Spot:
    return Spot(fact.seq, fact.queue, fact.priority, 0, 0, fact.flags)


def _facts(seq: int, job: NewJob, due: int) -> Facts:
    flags = 0
    if job.lane is not None:
        flags |= Flag.LANE
    if job.parent is not None:
        flags |= Flag.PARENT
    if job.unique is not None and job.unique.until is not Until.WINDOW:
        flags |= Flag.STARTED if job.unique.until is Until.STARTED else Flag.UNIQUE
    key = job.unique.key if job.unique else None
    return Facts(
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
