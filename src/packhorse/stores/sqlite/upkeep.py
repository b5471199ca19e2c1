"""What keeps the store tidy and people in charge: reap, release, cancel, replay, promote, drop, prune."""

from collections.abc import Iterator, Sequence

from packhorse.model.event import Change
from packhorse.model.ids import JobId, chosen
from packhorse.model.job import KEEP_DONE, LEASE, REMEMBER, Keep, State
from packhorse.model.lease import Lost
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.record import DELIVERED
from packhorse.stores.sql.prefix import between
from packhorse.stores.sqlite.ends import DROPPED, Ends
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.place import Facts, Flag, Spot, facts, leave, to_ready
from packhorse.stores.sqlite.settle import remember
from packhorse.stores.sqlite.step import SQL, Step, as_json, seqs_of

LIFECYCLE_KEPT = 10_000
REPLAYABLE = (State.DEAD, State.CANCELLED)


def reap(step: Step, limit: int, max_lost: int, keep: Keep) -> list[Lost]:
    """Take back leases that ran out."""
    ends, back, found = Ends(step), [], []
    for seq, job, worker, queue, priority, attempt, lost, flags, cancelling in step.rows(SQL.late, step.now, limit):
        spot = Spot(seq, queue, priority, attempt, lost + 1, flags)
        leave(step, State.RUNNING, [spot])
        if cancelling:
            state = State.CANCELLED
            ends.add(spot, state, KEEP_DONE)
            step.changed(Change.CANCELLED, [job])
        elif spot.lost >= max_lost:
            state = State.DEAD
            ends.add(spot, state, keep, reason=DeadReason.POISON)
            step.changed(Change.DEAD, [job])
        else:
            state = State.READY
            back.append((spot, step.now))
        found.append(Lost(job, worker, attempt, spot.lost, state))
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
    """Make dead or cancelled jobs ready again."""
    return [
        spot is not None and state in REPLAYABLE and _replayed(step, job, state, spot)
        for job, state, spot in places(step, ids)
    ]


def _replayed(step: Step, job: JobId, state: State, spot: Spot) -> bool:
    known = facts(step, [spot.seq])
    fact = known[spot.seq]
    if fact.flags & (Flag.UNIQUE | Flag.STARTED) and not _retaken(step, fact):
        return False
    (token,) = step.row(SQL.settled_by, spot.seq)
    remember(step, spot, token, None)
    step.run(SQL.leave_ends, as_json([spot.seq]))
    step.count(spot.queue, state, -1)
    fresh = Spot(spot.seq, fact.queue, fact.priority, 0, 0, fact.flags)
    admit(step, [(fresh, step.now)], known)
    step.changed(Change.REPLAYED, [job])
    return True


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
            step.count(spot.queue, state, -1)
        else:
            leave(step, state, [spot])
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


def prune(step: Step, limit: int) -> int:
    """Remove ended jobs beyond their keep, and whatever else is over."""
    removed = 0
    for shelf, queue, state, count, age in step.rows(SQL.crowded_shelves, step.now):
        edge = step.row(SQL.shelf_edge, shelf, count)
        rows = step.rows(SQL.overdue, shelf, edge[0] if edge else 0, step.now - age, limit - removed)
        if rows:
            _bury(step, rows, state)
            step.count(queue, State(state), -len(rows))
            removed += len(rows)
        if removed >= limit:
            break
    step.run(SQL.forget_tombs, step.now, limit)
    step.run(SQL.forget_uniques, step.now, limit)
    step.run(SQL.forget_records, step.now, limit)
    step.run(SQL.forget_workers, step.now)
    step.run(SQL.forget_asks, step.now - 10 * LEASE)
    step.run(SQL.trim_lifecycle, LIFECYCLE_KEPT)
    return removed


def _bury(step: Step, rows: Sequence[tuple[int, JobId, bytes | None]], state: str) -> None:
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
