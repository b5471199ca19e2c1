"""Ready jobs are leased: best first, by shares per queue."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from packhorse.model.event import Change
from packhorse.model.ids import Token
from packhorse.model.job import State
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Settlement
from packhorse.model.outcome import Again
from packhorse.stores.sqlite.lanes import admit_due
from packhorse.stores.sqlite.places import Flag, PlacedJob, facts, leave
from packhorse.stores.sqlite.settle import SettlementWriter
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, UnreadableText, as_json

Row = tuple[Any, ...]  # seq, priority, since, number, attempt, lost, flags, then what the record says
PAYLOAD, HEADERS = 9, 10  # where these stand in a row
READ_FIRST = 32  # rows


_FAULT = "The record of the job cannot be opened: a name in it is not UTF-8 text"


class Claim(NamedTuple):
    """What an ask got, what it left behind and when to ask again."""

    leases: tuple[Lease, ...]
    more: bool
    next_due: int | None


def claim(step: UnitOfWork, ask: ClaimRequest) -> Claim:
    """Lease ready jobs; the same ask again gives what it still holds."""
    token, number, fence = step.row(SQL.last_claim_request, ask.worker) or (None, 0, 0)
    giving = _giving(step, ask)
    if token == ask.token:  # never anew: an old holder must not share a token with a new one
        return Claim(_held(step, ask, fence), *_outlook(step, ask, giving))
    if ask.number < number:  # too late: nobody waits for its answer any more
        return Claim((), *_outlook(step, ask, giving))
    fence = step.next()
    leases = _shared_out(step, ask, giving, fence)
    if leases or ask.again:
        step.run(SQL.remember_ask, ask.worker, ask.token, step.now, ask.number, fence)
    if leases:
        step.changed(Change.CLAIMED, [lease.id for lease in leases])
    return Claim(tuple(leases), *_outlook(step, ask, giving))


def nothing(step: UnitOfWork, ask: ClaimRequest) -> Exchange | None:
    """The answer to an ask for which there is nothing, found by looking only; None if there may be something."""
    last = step.row(SQL.last_claim_request, ask.worker)
    more, next_due = _outlook(step, ask, _giving(step, ask))
    if more or ask.again or (last is not None and last[0] == ask.token):
        return None
    return Exchange((), (), False, next_due, step.now)


def _outlook(step: UnitOfWork, ask: ClaimRequest, giving: set[str]) -> tuple[bool, int | None]:
    """Whether the asked queues have ready work left, and when their next job falls due."""
    more, dues = False, []
    for share in ask.shares:
        if later := step.row(SQL.next_due, share.queue, step.now):
            dues.append(later[0])
        if share.queue in giving and not more:
            first = step.row(SQL.first_due, share.queue)
            more = bool(first and first[0] <= step.now) or step.row(SQL.any_ready, share.queue) is not None
    return more, min(dues, default=None)


def _giving(step: UnitOfWork, ask: ClaimRequest) -> set[str]:
    """The asked queues that are not paused."""
    return {share.queue for share in ask.shares}.difference(name for (name,) in step.rows(SQL.paused))


def _shared_out(step: UnitOfWork, ask: ClaimRequest, giving: set[str], fence: int) -> list[Lease]:
    """Each queue its share; what one cannot fill goes to the others, up to their most."""
    for queue in giving:
        come_due(step, queue)
    left, room = ask.total, Room(ask.max_bytes)
    got: dict[str, list[Row]] = {}
    for share in ask.shares:
        got[share.queue] = _take(step, ask, share.queue, share.count, room) if share.queue in giving else []
        left -= len(got[share.queue])
    for share in ask.shares:
        full = len(got[share.queue]) == share.count
        extra = left if share.limit is None else min(left, share.limit - share.count)
        if full and extra > 0 and share.queue in giving:
            more = _take(step, ask, share.queue, extra, room)
            got[share.queue] += more
            left -= len(more)
    found = [(row, queue) for queue, rows in got.items() for row in rows]
    if len(ask.shares) > 1:
        found.sort(key=_order)
    until = step.now + ask.lease
    return [_lease(ask.token, step.now, until, fence, queue, row) for row, queue in found]


def _order(found: tuple[Row, str]) -> Row:
    return found[0][1:4]


def come_due(step: UnitOfWork, queue: str) -> None:
    """Move jobs whose moment has come on to ready, at most 500."""
    rows = step.rows(SQL.due_now, queue, step.now)
    if not rows:
        return
    placed_jobs = [(PlacedJob(seq, queue, priority, *rest), since) for seq, _, queue, priority, since, *rest in rows]
    asking = [(placed, since) for placed, since in placed_jobs if placed.flags & (Flag.LANE | Flag.SLOT) == Flag.LANE]
    if plain := [placed.seq for placed, _ in placed_jobs if placed.flags & (Flag.LANE | Flag.SLOT) != Flag.LANE]:
        step.run(SQL.ready_due, as_json(plain))
        step.count(queue, State.READY, len(plain))
        step.work = True
    leave(step, State.SCHEDULED, [placed for placed, _ in placed_jobs])
    if asking:
        admit_due(step, asking, facts(step, [placed.seq for placed, _ in asking]))
        asked = {placed.seq for placed, _ in asking}
        step.run(SQL.number_laned, as_json([row[:2] for row in rows if row[0] in asked]))


class Room:
    """The bytes that an ask has left; the first job fits in any case, and after one that does not none does."""

    def __init__(self, most: int) -> None:
        self._left, self._first, self.over = most, True, False

    def fitting(self, sizes: Sequence[int]) -> int:
        """How many of these fit, before the first that does not."""
        total = sum(sizes)
        if total > self._left:
            for place, size in enumerate(sizes):
                self._left -= size
                if self._left < 0 and not (self._first and place == 0):
                    self.over = True
                    return place
        else:
            self._left -= total
        self._first = self._first and not sizes
        return len(sizes)


def _take(step: UnitOfWork, ask: ClaimRequest, queue: str, count: int, room: Room) -> list[Row]:
    """Lease jobs of a queue that fit, and read few that do not: some at first, then several times as many."""
    taken: list[Row] = []
    wanted = min(count, READ_FIRST)
    while wanted and not room.over:
        rows = step.rows(SQL.pick, queue, wanted)
        fitting = rows[: room.fitting([len(row[PAYLOAD]) + len(row[HEADERS]) for row in rows])]
        if fitting:
            _took(step, ask, queue, fitting)
            taken += fitting
        if len(rows) < wanted:
            break
        wanted = min(count - len(taken), 4 * len(taken))
    return taken


def _took(step: UnitOfWork, ask: ClaimRequest, queue: str, rows: Sequence[Row]) -> None:
    step.run(SQL.lease, queue, len(rows), step.now, step.now + ask.lease, ask.token, ask.worker)
    step.run(SQL.leave_head, queue, *rows[-1][1:4])
    step.count(queue, State.READY, -len(rows))
    step.count(queue, State.RUNNING, len(rows))
    if starting := [row[0] for row in rows if row[6] & Flag.STARTED]:
        step.run(SQL.free_unique_keys, as_json(starting))


def _lease(token: Token, claimed: int, until: int, fence: int, queue: str, row: Sequence[Any]) -> Lease:
    seq, priority, _, _, attempt, lost, _, job, task, payload, headers, enqueued_at, lane, parent = row
    return Lease(
        id=job, token=token, until=until, task=task, queue=queue, payload=payload, headers=headers,
        priority=priority, attempt=attempt, lost=lost, enqueued_at=enqueued_at, lane=lane, parent=parent, claimed=claimed,
        ref=seq, fence=fence, fault="" if type(task) is str and type(lane) is not UnreadableText else _FAULT,
    )  # fmt: skip


def _held(step: UnitOfWork, ask: ClaimRequest, fence: int) -> tuple[Lease, ...]:
    """The leases of an ask that are still held; those that do not fit in its bytes any more are made ready again."""
    rows = step.rows(SQL.leases_by_token, ask.token)
    leases = [_lease(ask.token, claimed, until, fence, queue, row) for queue, claimed, until, *row in rows]
    fit = Room(ask.max_bytes).fitting([len(lease.payload) + len(lease.headers) for lease in leases])
    if over := leases[fit:]:
        SettlementWriter(step, over).all([Settlement(lease, Again(charged=False)) for lease in over])
    return tuple(leases[:fit])
