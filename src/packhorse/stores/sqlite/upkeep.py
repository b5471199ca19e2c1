"""What keeps the store tidy and people in charge: reap, release, cancel, replay, promote, drop, prune."""

from collections.abc import Iterator, Sequence
from typing import Any

from packhorse.model.event import Change
from packhorse.model.ids import JobId, chosen
from packhorse.model.job import KEEP_DONE, KEEP_WATCHED, LEASE, REMEMBER, Keep, Pruned, State
from packhorse.model.lease import Lost
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.record import DELIVERED
from packhorse.stores.sql.prefix import between
from packhorse.stores.sqlite.ends import DROPPED, Ends, take_back_delivery
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.place import Facts, Flag, Parked, Spot, facts, leave, to_ready, to_waits
from packhorse.stores.sqlite.settle import remember
from packhorse.stores.sqlite.step import SQL, Step, as_json, seqs_of

LIFECYCLE_KEPT = 10_000
SHELVES = 500  # that a prune looks at
REPLAYABLE = (State.DEAD, State.CANCELLED)


def reap(step: Step, limit: int, max_lost: int, keep: Keep) -> list[Lost]:
    """Take back leases that ran out."""
    ends, back, found = Ends(step), [], []
    rows = step.rows(SQL.late, step.now, limit)
    for seq, job, worker, queue, priority, attempt, lost, flags, held, cancelling in rows:
        counted = not lost or held  # the attempts of a job that was lost before hold a step when they begin
        spot = Spot(seq, queue, priority, attempt if counted else attempt - 1, lost + 1 if counted else lost, flags)
        leave(step, State.RUNNING, [spot])
        if cancelling:
            state = State.CANCELLED
            ends.add(spot, state, KEEP_DONE)
            step.changed(Change.CANCELLED, [job])
        elif held and spot.lost >= max_lost:
            state = State.DEAD
            ends.add(spot, state, keep, reason=DeadReason.POISON)
            step.changed(Change.DEAD, [job])
        else:
            state = State.READY
            back.append((spot, step.now))
        found.append(Lost(job, worker, spot.attempt, spot.lost, state))
    to_ready(step, back)
    ends.flush()
    step.changed(Change.LOST, [lost.id for lost in found])
    return found


def release(step: Step, reason: WaitReason, tasks: Sequence[str] | None, limit: int) -> int:
    """Make jobs ready that wait for this reason."""
    rows = step.rows(SQL.parked, reason, None if tasks is None else as_json(tasks), limit)
    spots = [Spot(seq, *rest) for seq, _, *rest in rows]
    leave(step, State.WAITING, spots)
    admit(step, [(spot, step.now) for spot in spots], facts(step, [spot.seq for spot in spots]))
    step.changed(Change.AGAIN, [row[1] for row in rows])
    return len(rows)


def cancel(step: Step, ids: Sequence[JobId], keep: Keep) -> list[State | None]:
    """End jobs that are not running, ask running ones to stop."""
    ends, answers = Ends(step), []
    for job, state, spot in places(step, ids):
        if spot is None or state is None or state.ended:
            answers.append(state)
        elif state is State.RUNNING:
            step.run(SQL.mark_cancelling, as_json([spot.seq]))
            answers.append(state)
        else:
            leave(step, state, [spot])
            ends.add(spot, State.CANCELLED, keep)
            ends.flush()
            step.changed(Change.CANCELLED, [job])
            answers.append(State.CANCELLED)
    return answers


def replay(step: Step, ids: Sequence[JobId]) -> list[bool]:
    """Make dead or cancelled jobs ready again. A parent waits for children that are replayed in the same call."""
    taken = [
        _taken_out(step, state, spot) if spot is not None and state in REPLAYABLE else None
        for _, state, spot in places(step, ids)
    ]
    for fact in taken:
        if fact is not None:
            _begin_again(step, fact)
    return [fact is not None for fact in taken]


def _taken_out(step: Step, state: State, spot: Spot) -> Facts | None:
    """Take a job out of its end, unless its unique key was taken meanwhile."""
    fact = facts(step, [spot.seq])[spot.seq]
    if fact.flags & (Flag.UNIQUE | Flag.STARTED) and not _retaken(step, fact):
        return None
    (token,) = step.row(SQL.settled_by, spot.seq)
    if token is not None:
        remember(step, spot, token, None)
    step.run(SQL.leave_ends, as_json([spot.seq]))
    step.count(spot.queue, state, -1)
    if fact.parent is not None:
        take_back_delivery(step, fact.parent, fact.id)
    step.changed(Change.REPLAYED, [fact.id])
    return fact


def _begin_again(step: Step, fact: Facts) -> None:
    spot = Spot(fact.seq, fact.queue, fact.priority, 0, 0, fact.flags)
    delivered = step.row(SQL.delivered, fact.seq) if fact.children else None
    if fact.children and (delivered is None or fact.children > delivered[0]):
        to_waits(step, [(spot, Parked(WaitReason.CHILDREN, pending=fact.children))])
    else:
        admit(step, [(spot, step.now)], {fact.seq: fact})


def _retaken(step: Step, fact: Facts) -> bool:
    if step.row(SQL.unique_holder, fact.unique_key, step.now):
        return False
    step.run(SQL.take_unique, fact.unique_key, fact.id, None)
    return True


def promote(step: Step, ids: Sequence[JobId]) -> list[bool]:
    """Make jobs ready whose moment is to come, or that wait for a person."""
    seqs = seqs_of(step, ids)
    states, spots = {}, {}
    for seq, state, *rest in step.rows(SQL.promotable, as_json(seqs), step.now, WaitReason.INTERVENTION):
        states[seq], spots[seq] = State(state), Spot(seq, *rest)
    moving = {seq: job for job, seq in zip(ids, seqs, strict=True) if seq in spots}  # each once, in the order given
    for place in (State.SCHEDULED, State.WAITING):
        leave(step, place, [spots[seq] for seq in moving if states[seq] is place])
    admit(step, [(spots[seq], step.now) for seq in moving], facts(step, list(spots)))
    step.changed(Change.PROMOTED, moving.values())
    return [moving.pop(seq, None) is not None for seq in seqs]


def drop(step: Step, ids: Sequence[JobId]) -> list[bool]:
    """Remove jobs with all that belongs to them."""
    ends, answers = Ends(step), []
    for job, state, spot in places(step, ids):
        answers.append(spot is not None)
        step.run(SQL.unbury, job)
        if spot is None or state is None:
            continue
        if state.ended:
            step.run(SQL.leave_ends, as_json([spot.seq]))
            step.removed(spot.queue, state, 1)
        else:
            leave(step, state, [spot])
            step.removed(spot.queue, state, 0)  # counted as it left
            ends.depart(spot, DROPPED)
            ends.flush()
            step.ends = True
        erase(step, [(spot.seq, job)])
    return answers


def erase(step: Step, jobs: Sequence[tuple[int, JobId]]) -> None:
    """Remove records that have no place any more, and what hangs on them."""
    seqs = as_json([seq for seq, _ in jobs])
    for statement in (SQL.erase_jobs, SQL.erase_tries, SQL.erase_notes):
        step.run(statement, seqs)
    parents = {seq for (seq,) in step.rows(SQL.erase_families, seqs)}
    for seq, job in jobs:
        if seq in parents:
            step.run(SQL.erase_deliveries, DELIVERED, *between(f"{job.hex()}/", ""))


def prune(step: Step, limit: int, after: int) -> tuple[Pruned, int]:
    """Remove ended jobs beyond their keep, and whatever else is over; answers also the shelf to go on after."""
    jobs, shelves = 0, step.rows(SQL.some_shelves, after, SHELVES)
    for shelf, queue, state, count, age, there, oldest in shelves:
        if jobs == limit:
            break
        if oldest is None:
            step.run(SQL.remove_shelf, shelf)
        elif there > count or oldest <= step.now - age:
            rows = _overdue(step, shelf, count, age, limit - jobs)
            _bury(step, rows, state)
            step.removed(queue, State(state), len(rows))
            jobs += len(rows)
    others = [
        step.run(statement, step.now, limit).rowcount
        for statement in (
            SQL.forget_tombs,
            SQL.forget_uniques,
            SQL.forget_records,
            SQL.forget_watches,
            SQL.forget_workers,
        )
    ]
    step.run(SQL.forget_asks, step.now - 10 * LEASE)
    step.run(SQL.trim_lifecycle, LIFECYCLE_KEPT)
    unseen = len(shelves) == SHELVES
    pruned = Pruned(jobs, sum(others), unseen or limit in (jobs, *others))
    return pruned, after if jobs == limit else shelves[-1][0] if unseen else 0


def _overdue(step: Step, shelf: int, count: int, age: int, limit: int) -> list[Any]:
    edge = step.row(SQL.shelf_edge, shelf, count)
    last = edge[0] if edge else 0
    return step.rows(SQL.overdue, shelf, last, step.now - age, limit, step.now, KEEP_WATCHED)


def _bury(step: Step, rows: Sequence[tuple[int, JobId, bytes | None]], state: str) -> None:
    if not rows:
        return
    step.run(SQL.leave_ends, as_json([seq for seq, _, _ in rows]))
    ours, theirs = step.now + 10 * LEASE, step.now + REMEMBER
    step.put(SQL.bury, [(job, token, theirs if chosen(job) else ours) for _, job, token in rows], state)
    erase(step, [(seq, job) for seq, job, _ in rows])


def places(step: Step, ids: Sequence[JobId]) -> Iterator[tuple[JobId, State | None, Spot | None]]:
    """Where each job stands when its turn comes: what happens to one may move the next."""
    for job, seq in zip(ids, seqs_of(step, ids), strict=True):
        row = None if seq is None else step.row(SQL.places, as_json([seq]))
        if row is None:
            yield job, None, None
        else:
            yield job, State(row[1]), Spot(row[0], *row[2:])
