"""What keeps the store tidy and people in charge: reap, release, cancel, replay, promote, drop, prune."""

from collections.abc import Iterator, Sequence
from typing import Any

from packhorse.model import event
from packhorse.model.event import Change
from packhorse.model.ids import JobId, chosen
from packhorse.model.job import KEEP_DONE, KEEP_WATCHED_US, LEASE_US, REMEMBER_US, Pruned, PrunedDead, Retention, State
from packhorse.model.lease import Lost
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.record import DELIVERED
from packhorse.stores.sql.prefix import between
from packhorse.stores.sqlite.end_writer import DROPPED, EndWriter, take_back_delivery
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.places import Flag, JobFacts, PlacedJob, WaitEntry, facts, leave, to_ready, to_waiting
from packhorse.stores.sqlite.settle import remember
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json, seqs_of

EVENTS_PER_PRUNE = 1000  # of the lifecycle, that a prune drops: large ones take 80 us each
SHELVES = 500  # that a prune looks at
REPLAYABLE = (State.DEAD, State.CANCELLED)


def reap(step: UnitOfWork, limit: int, max_lost: int, keep: Retention) -> list[Lost]:
    """Take back leases that ran out."""
    ends, back, found = EndWriter(step), [], []
    rows = step.rows(SQL.expired_leases, step.now, limit)
    for seq, job, worker, queue, priority, attempt, lost, flags, held, cancelling in rows:
        counted = not lost or held  # the attempts of a job that was lost before hold a step when they begin
        placed = PlacedJob(
            seq, queue, priority, attempt if counted else attempt - 1, lost + 1 if counted else lost, flags
        )
        leave(step, State.RUNNING, [placed])
        if cancelling:
            state = State.CANCELLED
            ends.add(placed, state, KEEP_DONE)
            step.changed(Change.CANCELLED, [job])
        elif held and placed.lost >= max_lost:
            state = State.DEAD
            ends.add(placed, state, keep, reason=DeadReason.POISON)
            step.changed(Change.DEAD, [job])
        else:
            state = State.READY
            back.append((placed, step.now))
        found.append(Lost(job, worker, placed.attempt, placed.lost, state))
    to_ready(step, back)
    ends.flush()
    step.changed(Change.LOST, [lost.id for lost in found])
    return found


def release(step: UnitOfWork, reason: WaitReason, tasks: Sequence[str] | None, limit: int) -> int:
    """Make jobs ready that wait for this reason."""
    rows = step.rows(SQL.releasable, reason, None if tasks is None else as_json(tasks), limit)
    placed_jobs = [PlacedJob(seq, *rest) for seq, _, *rest in rows]
    leave(step, State.WAITING, placed_jobs)
    admit(step, [(placed, step.now) for placed in placed_jobs], facts(step, [placed.seq for placed in placed_jobs]))
    step.changed(Change.AGAIN, [row[1] for row in rows])
    return len(rows)


def cancel(step: UnitOfWork, ids: Sequence[JobId], keep: Retention) -> list[State | None]:
    """End jobs that are not running, ask running ones to stop."""
    ends, answers = EndWriter(step), []
    for job, state, placed in places(step, ids):
        if placed is None or state is None or state.ended:
            answers.append(state)
        elif state is State.RUNNING:
            step.run(SQL.mark_cancelling, as_json([placed.seq]))
            answers.append(state)
        else:
            leave(step, state, [placed])
            ends.add(placed, State.CANCELLED, keep)
            ends.flush()
            step.changed(Change.CANCELLED, [job])
            answers.append(State.CANCELLED)
    return answers


def replay(step: UnitOfWork, ids: Sequence[JobId]) -> list[bool]:
    """Make dead or cancelled jobs ready again. A parent waits for children that are replayed in the same call."""
    taken = [
        _taken_out(step, state, placed) if placed is not None and state in REPLAYABLE else None
        for _, state, placed in places(step, ids)
    ]
    for fact in taken:
        if fact is not None:
            _begin_again(step, fact)
    return [fact is not None for fact in taken]


def _taken_out(step: UnitOfWork, state: State, placed: PlacedJob) -> JobFacts | None:
    """Take a job out of its end, unless its unique key was taken meanwhile."""
    fact = facts(step, [placed.seq])[placed.seq]
    if fact.flags & (Flag.UNIQUE | Flag.STARTED) and not _retaken(step, fact):
        return None
    (token,) = step.row(SQL.settled_by, placed.seq)
    if token is not None:
        remember(step, placed, token, None)
    step.run(SQL.leave_ended, as_json([placed.seq]))
    step.left_end(placed.queue, state, 1)
    if fact.parent is not None:
        take_back_delivery(step, fact.parent, fact.id)
    step.changed(Change.REPLAYED, [fact.id])
    return fact


def _begin_again(step: UnitOfWork, fact: JobFacts) -> None:
    placed = PlacedJob(fact.seq, fact.queue, fact.priority, 0, 0, fact.flags)
    delivered = step.row(SQL.delivered, fact.seq) if fact.children else None
    if fact.children and (delivered is None or fact.children > delivered[0]):
        to_waiting(step, [(placed, WaitEntry(WaitReason.CHILDREN, pending=fact.children))])
    else:
        admit(step, [(placed, step.now)], {fact.seq: fact})


def _retaken(step: UnitOfWork, fact: JobFacts) -> bool:
    if step.row(SQL.unique_holder, fact.unique_key, step.now):
        return False
    step.run(SQL.take_unique, fact.unique_key, fact.id, None)
    return True


def promote(step: UnitOfWork, ids: Sequence[JobId]) -> list[bool]:
    """Make jobs ready whose moment is to come, or that wait for a person."""
    seqs = seqs_of(step, ids)
    states, placed_jobs = {}, {}
    for seq, state, *rest in step.rows(SQL.promotable, as_json(seqs), step.now, WaitReason.INTERVENTION):
        states[seq], placed_jobs[seq] = State(state), PlacedJob(seq, *rest)
    moving = {
        seq: job for job, seq in zip(ids, seqs, strict=True) if seq in placed_jobs
    }  # each once, in the order given
    for place in (State.SCHEDULED, State.WAITING):
        leave(step, place, [placed_jobs[seq] for seq in moving if states[seq] is place])
    admit(step, [(placed_jobs[seq], step.now) for seq in moving], facts(step, list(placed_jobs)))
    step.changed(Change.PROMOTED, moving.values())
    return [moving.pop(seq, None) is not None for seq in seqs]


def drop(step: UnitOfWork, ids: Sequence[JobId]) -> list[bool]:
    """Remove jobs with all that belongs to them."""
    ends, answers = EndWriter(step), []
    for job, state, placed in places(step, ids):
        answers.append(placed is not None)
        step.run(SQL.remove_tombstone, job)
        if placed is None or state is None:
            continue
        if state.ended:
            step.run(SQL.leave_ended, as_json([placed.seq]))
            step.left_end(placed.queue, state, 1)
        else:
            leave(step, state, [placed])
            ends.depart(placed, DROPPED)
            ends.flush()
            step.ends = True
        erase(step, [(placed.seq, job)])
        step.removed(placed.queue, 1)
    return answers


def erase(step: UnitOfWork, jobs: Sequence[tuple[int, JobId]]) -> None:
    """Remove records that have no place any more, and what hangs on them."""
    seqs = as_json([seq for seq, _ in jobs])
    for statement in (SQL.erase_jobs, SQL.erase_tries, SQL.erase_progress):
        step.run(statement, seqs)
    parents = {seq for (seq,) in step.rows(SQL.erase_families, seqs)}
    for seq, job in jobs:
        if seq in parents:
            step.run(SQL.erase_deliveries, DELIVERED, *between(f"{job.hex()}/", ""))


def prune(step: UnitOfWork, limit: int, after: int) -> tuple[Pruned, int]:
    """Remove ended jobs beyond their keep, and whatever else is over; answers also the group to go on after."""
    jobs, groups = 0, step.rows(SQL.next_retention_groups, after, SHELVES)
    dead: dict[str, PrunedDead] = {}
    for group, queue, state, count, age, there, oldest in groups:
        if jobs == limit:
            break
        if oldest is None:
            step.run(SQL.remove_retention_group, group)
        elif there > count or oldest <= step.now - age:
            rows = _prunable(step, group, count, age, limit - jobs)
            _bury(step, rows, state)
            step.left_end(queue, State(state), len(rows))
            step.removed(queue, len(rows))
            jobs += len(rows)
            if rows and state == State.DEAD:
                before = dead.get(queue, PrunedDead(0, 0))
                dead[queue] = PrunedDead(before.jobs + len(rows), max(before.newest, rows[-1][3]))
    others = [
        step.run(statement, step.now, limit).rowcount
        for statement in (
            SQL.forget_tombstones,
            SQL.forget_unique_keys,
            SQL.forget_records,
            SQL.forget_watched_jobs,
            SQL.forget_workers,
        )
    ]
    step.run(SQL.forget_claim_requests, step.now - 10 * LEASE_US)
    more_events = _bound_lifecycle(step)
    unseen = len(groups) == SHELVES
    pruned = Pruned(jobs, sum(others), unseen or more_events or limit in (jobs, *others), dead)
    return pruned, after if jobs == limit else groups[-1][0] if unseen else 0


def _bound_lifecycle(step: UnitOfWork) -> bool:
    """Keep the newest events of the lifecycle: so many, and of so many bytes; answer whether there may be more to drop."""
    last, size = step.row(SQL.lifecycle_bytes, event.LIFECYCLE_MAX_EVENTS)
    beyond = last - event.LIFECYCLE_MAX_EVENTS
    if size > event.LIFECYCLE_MAX_BYTES:
        size = 0
        for number, length in step.run(SQL.newest_lifecycle, beyond):
            size += length
            if size > event.LIFECYCLE_MAX_BYTES:
                beyond = min(number, last - 1)
                break
    return step.run(SQL.drop_lifecycle, beyond, EVENTS_PER_PRUNE).rowcount == EVENTS_PER_PRUNE


def _prunable(step: UnitOfWork, group: int, count: int, age: int, limit: int) -> list[Any]:
    edge = step.row(SQL.first_beyond_count, group, count)
    last = edge[0] if edge else 0
    return step.rows(SQL.prunable, group, last, step.now - age, limit, step.now, KEEP_WATCHED_US)


def _bury(step: UnitOfWork, rows: Sequence[tuple[int, JobId, bytes | None, int]], state: str) -> None:
    if not rows:
        return
    step.run(SQL.leave_ended, as_json([seq for seq, *_ in rows]))
    ours, theirs = step.now + 10 * LEASE_US, step.now + REMEMBER_US
    step.put(SQL.add_tombstone, [(job, token, theirs if chosen(job) else ours) for _, job, token, _ in rows], state)
    erase(step, [(seq, job) for seq, job, *_ in rows])


def places(step: UnitOfWork, ids: Sequence[JobId]) -> Iterator[tuple[JobId, State | None, PlacedJob | None]]:
    """Where each job stands when its turn comes: what happens to one may move the next."""
    for job, seq in zip(ids, seqs_of(step, ids), strict=True):
        row = None if seq is None else step.row(SQL.places, as_json([seq]))
        if row is None:
            yield job, None, None
        else:
            yield job, State(row[1]), PlacedJob(row[0], *row[2:])
