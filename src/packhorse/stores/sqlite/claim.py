"""Ready jobs are leased: best first, by shares per queue."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from packhorse.model.event import Change
from packhorse.model.ids import Token
from packhorse.model.job import State
from packhorse.model.lease import Ask, Exchange, Lease
from packhorse.stores.sqlite.lanes import admit
from packhorse.stores.sqlite.place import Flag, Spot, facts, leave
from packhorse.stores.sqlite.step import SQL, Step, as_json

Row = tuple[Any, ...]  # seq, priority, since, number, attempt, lost, flags, then what the record says


class Claim(NamedTuple):
    """What an ask got, what it left behind and when to ask again."""

    leases: tuple[Lease, ...]
    more: bool
    next_due: int | None


def claim(step: Step, ask: Ask) -> Claim:
    """Lease ready jobs; the same ask again gives what it still holds."""
    last = step.row(SQL.last_ask, ask.worker)
    if last is not None and last[0] == ask.token:  # never anew: an old holder must not share a token with a new one
        return Claim(_held(step, ask), *_outlook(step, ask, _giving(step, ask)))
    giving = _giving(step, ask)
    leases = _shared_out(step, ask, giving)
    if leases:
        step.run(SQL.remember_ask, ask.worker, ask.token, step.now)
        step.changed(Change.CLAIMED, [lease.id for lease in leases])
    return Claim(tuple(leases), *_outlook(step, ask, giving))


def nothing(step: Step, ask: Ask) -> Exchange | None:
    """The answer to an ask for which there is nothing, found by looking only; None if there may be something."""
    last = step.row(SQL.last_ask, ask.worker)
    more, next_due = _outlook(step, ask, _giving(step, ask))
    if more or (last is not None and last[0] == ask.token):
        return None
    return Exchange((), (), False, next_due, step.now)


def _outlook(step: Step, ask: Ask, giving: set[str]) -> tuple[bool, int | None]:
    """Whether the asked queues have ready work left, and when their next job falls due."""
    more, dues = False, []
    for share in ask.shares:
        if later := step.row(SQL.next_due, share.queue, step.now):
            dues.append(later[0])
        if share.queue in giving and not more:
            first = step.row(SQL.first_due, share.queue)
            more = bool(first and first[0] <= step.now) or step.row(SQL.any_ready, share.queue) is not None
    return more, min(dues, default=None)


def _giving(step: Step, ask: Ask) -> set[str]:
    """The asked queues that are not paused."""
    return {share.queue for share in ask.shares}.difference(name for (name,) in step.rows(SQL.paused))


def _shared_out(step: Step, ask: Ask, giving: set[str]) -> list[Lease]:
    """Each queue its share; what one cannot fill goes to the others, up to their most."""
    for queue in giving:
        come_due(step, queue)
    left = ask.total
    got: dict[str, list[Row]] = {}
    for share in ask.shares:
        got[share.queue] = _take(step, ask, share.queue, share.count) if share.queue in giving else []
        left -= len(got[share.queue])
    for share in ask.shares:
        full = len(got[share.queue]) == share.count
        room = left if share.most is None else min(left, share.most - share.count)
        if full and room > 0 and share.queue in giving:
            more = _take(step, ask, share.queue, room)
            got[share.queue] += more
            left -= len(more)
    found = [(row, queue) for queue, rows in got.items() for row in rows]
    if len(ask.shares) > 1:
        found.sort(key=_order)
    return _leases(found, ask.token, step.now + ask.lease)


def _order(found: tuple[Row, str]) -> Row:
    return found[0][1:4]


def come_due(step: Step, queue: str) -> None:
    """Move jobs whose moment has come on to ready, at most 500."""
    rows = step.rows(SQL.due_now, queue, step.now)
    if not rows:
        return
    spots = [(Spot(seq, queue, priority, *rest), since) for seq, queue, priority, since, *rest in rows]
    laned = [spot.seq for spot, _ in spots if spot.flags & Flag.LANE]
    leave(step, State.SCHEDULED, [spot for spot, _ in spots])
    admit(step, spots, facts(step, laned) if laned else {})


def _take(step: Step, ask: Ask, queue: str, count: int) -> list[Row]:
    rows: list[Row] = step.rows(SQL.pick, queue, count) if count else []
    if not rows:
        return []
    step.run(SQL.lease, queue, len(rows), step.now + ask.lease, ask.token, ask.worker)
    step.run(SQL.leave_head, queue, *rows[-1][1:4])
    step.count(queue, State.READY, -len(rows))
    step.count(queue, State.RUNNING, len(rows))
    if starting := [row[0] for row in rows if row[6] & Flag.STARTED]:
        step.run(SQL.free_uniques, as_json(starting))
    return rows


def _leases(found: Sequence[tuple[Row, str]], token: Token, until: int) -> list[Lease]:
    return [
        Lease(
            id=job, token=token, until=until, task=task, queue=queue, payload=payload, headers=headers,
            priority=priority, attempt=attempt, lost=lost, born=born, lane=lane, parent=parent, ref=seq,
        )
        for (seq, priority, _, _, attempt, lost, _, job, task, payload, headers, born, lane, parent), queue in found
    ]  # fmt: skip


def _held(step: Step, ask: Ask) -> tuple[Lease, ...]:
    names = (
        "queue", "until", "ref", "priority", "attempt", "lost", "id", "task", "payload", "headers", "born", "lane", "parent",
    )  # fmt: skip
    rows = step.rows(SQL.leases_by_token, ask.token)
    return tuple(Lease(token=ask.token, **dict(zip(names, row, strict=True))) for row in rows)
