"""Outcomes are written: each settlement whole or not at all, guarded by the token of its lease."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress, groupby
from typing import Any, assert_never

import msgspec

from packhorse.model import caps
from packhorse.model.effect import Effect, Enqueue, Publish, Put
from packhorse.model.event import Change
from packhorse.model.ids import JobId, Token
from packhorse.model.job import KEEP_DONE, Failure, State
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.ends import Ends, LeaseRow
from packhorse.stores.sqlite.enqueue import enqueue
from packhorse.stores.sqlite.lanes import hand_on
from packhorse.stores.sqlite.place import Flag, Parked, Spot, leave, to_due, to_ready, to_waits
from packhorse.stores.sqlite.records import expected, version, write
from packhorse.stores.sqlite.step import SQL, Step, as_json, seqs_of
from packhorse.stores.sqlite.streams import append


class Settling:
    """Settlements of one exchange, in order. Plain ends are gathered and written together."""

    def __init__(self, step: Step, leases: Sequence[Lease]) -> None:
        self._step = step
        self._ends = Ends(step)
        self._gone: list[tuple[Any, ...]] = []
        self._done: list[tuple[LeaseRow, Done, JobId]] = []
        self._seqs = refs(step, leases)
        self._seen: dict[int, LeaseRow] | None = None

    def all(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Settle each and answer its verdict."""
        verdicts: list[Verdict] = []
        for plain, run in groupby(zip(settlements, self._seqs, strict=True), _plain):
            lot = list(run)
            verdicts += self._together(lot) if plain else [self._alone(*one) for one in lot]
        self._flush()
        return verdicts

    def _together(self, lot: Sequence[tuple[Settlement, int]]) -> list[Verdict]:
        """Plain ends, by far the most; whichever is not so plain after all is settled like the others."""
        self._flush()  # whatever has left its lease before, has left it
        ended, written = self._ends.write_plain(lot), Verdict.WRITTEN  # looking up a member of an enum is slow in 3.11
        if self._seen:
            for _, seq in compress(lot, ended):
                self._seen.pop(seq, None)
        return [written if end else self._alone(*one) for one, end in zip(lot, ended, strict=True)]

    def _alone(self, settlement: Settlement, seq: int) -> Verdict:
        row, lease, outcome = self._held.get(seq), settlement.lease, settlement.outcome
        if row is None or row[6] != lease.token:
            return self._not_held(lease, seq)
        if type(outcome) is Done and not settlement.effects:
            del self._held[seq]
            self._done.append((row, outcome, lease.id))
            return Verdict.WRITTEN
        return self._one(settlement, row)

    @property
    def _held(self) -> dict[int, LeaseRow]:
        """The leases that are held, looked up when one is asked for that is not plain."""
        if self._seen is None:
            self._seen = {row[0]: row for row in self._step.rows(SQL.leases_of, as_json(self._seqs))}
        return self._seen

    def _not_held(self, lease: Lease, seq: int) -> Verdict:
        repeated = self._flushed().row(SQL.settled_before, seq, lease.token, lease.id)
        return Verdict.REPEATED if repeated else Verdict.LOST

    def _one(self, settlement: Settlement, held: LeaseRow) -> Verdict:
        lease, outcome, effects = settlement.lease, settlement.outcome, settlement.effects
        if isinstance(outcome, Held) and outcome.step <= held[7]:
            return Verdict.REPEATED
        if effects and not _met(self._step, effects):
            return Verdict.CONFLICT
        self._write(lease, held, outcome, effects)
        return Verdict.WRITTEN

    def _write(self, lease: Lease, held: LeaseRow, outcome: Outcome, effects: Sequence[Effect]) -> None:
        self._gather()
        step, spot = self._step, Spot._make(held[:6])
        if isinstance(outcome, Held):
            step.run(SQL.hold_step, spot.seq, outcome.step)
            self._held[spot.seq] = (*spot, held[6], outcome.step, held[8])
            self._effects(effects)
            step.changed(Change.HELD, [lease.id])
            return
        del self._held[spot.seq]
        self._gone.append(spot)
        if held[8] and isinstance(outcome, Again | Wait):
            if isinstance(outcome, Again):
                remember(step, spot, lease.token, outcome.error)
            outcome, effects = Cancelled(KEEP_DONE), ()
        match outcome:
            case Done(result, keep):
                self._ends.add(spot, State.DONE, keep, lease.token, result=result)
                step.changed(Change.DONE, [lease.id])
            case Dead(reason, error, keep):
                remember(step, spot, lease.token, error)
                self._ends.add(spot, State.DEAD, keep, lease.token, reason=reason)
                step.changed(Change.DEAD, [lease.id])
            case Cancelled(keep, error):
                if error is not None:
                    remember(step, spot, lease.token, error)
                self._ends.add(spot, State.CANCELLED, keep, lease.token)
                step.changed(Change.CANCELLED, [lease.id])
            case Again(delay, error, charged):
                remember(step, spot, lease.token, error)
                self._effects(effects)
                self._again(lease, spot if charged else _uncharged(spot), delay)
                return
            case Wait():
                remember(step, spot, lease.token, None)
                self._effects(effects)
                self._wait(lease, _uncharged(spot), outcome)
                return
            case _:
                assert_never(outcome)
        self._effects(effects)

    def _again(self, lease: Lease, spot: Spot, delay: int) -> None:
        step = self._flushed()
        (to_due if delay else to_ready)(step, [(spot, step.now + delay)])
        step.changed(Change.AGAIN, [lease.id])

    def _wait(self, lease: Lease, spot: Spot, wait: Wait) -> None:
        step = self._flushed()
        if _there(step, spot, wait):
            to_ready(step, [(spot, step.now)])
            step.changed(Change.AGAIN, [lease.id])
        else:
            pending, slot = (wait.children, 0) if wait.reason is WaitReason.CHILDREN else (None, spot.flags & Flag.SLOT)
            waiting = spot._replace(flags=spot.flags & ~Flag.SLOT | slot)
            to_waits(step, [(waiting, Parked(wait.reason, wait.detail, pending=pending, on=wait.on))])
            if waiting != spot:  # its children may be behind the same lane
                hand_on(step, Counter([(spot.queue, str(lease.lane))]))
            step.changed(Change.WAITING, [lease.id])

    def _effects(self, effects: Sequence[Effect]) -> None:
        if effects:
            apply(self._flushed(), effects)

    def _flushed(self) -> Step:
        self._flush()
        return self._step

    def _flush(self) -> None:
        self._gather()
        gone, self._gone = self._gone, []
        leave(self._step, State.RUNNING, gone)
        self._ends.flush()

    def _gather(self) -> None:
        """Note the plain ends, before whatever comes after them."""
        if not self._done:
            return
        done, self._done = self._done, []
        self._ends.add_done(done)
        self._gone += [row for row, _, _ in done]
        self._step.changed(Change.DONE, [job for _, _, job in done])


def _plain(one: tuple[Settlement, int]) -> bool:
    """Whether a job worked, and nothing seems to hang on it."""
    settlement = one[0]
    lease = settlement.lease
    return type(settlement.outcome) is Done and not (settlement.effects or lease.lane or lease.parent)


def refs(step: Step, leases: Sequence[Lease]) -> list[int]:
    """The rowids of leased jobs: carried by the lease, or looked up by id."""
    unknown = [lease.id for lease in leases if not lease.ref]
    if not unknown:
        return [lease.ref for lease in leases]
    found = dict(zip(unknown, seqs_of(step, unknown), strict=True))
    return [lease.ref or found[lease.id] or 0 for lease in leases]


def remember(step: Step, spot: Spot, token: Token | None, error: Failure | None) -> None:
    """Keep what an attempt left behind: the token for a repeat, the failure for people."""
    data = None if error is None else msgspec.json.encode(error)
    step.run(SQL.add_try, spot.seq, step.next(), token, spot.attempt, step.now, data)
    step.run(SQL.forget_tries, spot.seq, error is not None, caps.FAILURES)


def apply(step: Step, effects: Sequence[Effect]) -> None:
    """Write effects in their order; jobs that stand together are stored together."""
    jobs = [effect.job for effect in effects if isinstance(effect, Enqueue)]
    if jobs:
        enqueue(step, jobs)
    append(step, [effect for effect in effects if isinstance(effect, Publish)])
    for effect in effects:
        if isinstance(effect, Put):
            write(step, effect)


def fire(step: Step, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
    """Write effects that belong to no lease, each move whole or not at all; jobs and events of all are stored together."""
    verdicts, others = [], []
    for effects in moves:
        met = _met(step, effects)
        verdicts.append(Verdict.WRITTEN if met else Verdict.CONFLICT)
        for effect in effects if met else ():
            if isinstance(effect, Put):
                write(step, effect)
            else:
                others.append(effect)
    apply(step, others)
    return verdicts


def _met(step: Step, effects: Sequence[Effect]) -> bool:
    """Whether every put of a settlement finds what it expects, one after the other."""
    puts = [effect for effect in effects if isinstance(effect, Put)]
    if len({(put.kind, put.key) for put in puts}) == len(puts):
        return all(expected(step, put) for put in puts)
    versions: dict[tuple[str, str], int] = {}
    for put in puts:
        name = (put.kind, put.key)
        current = versions[name] if name in versions else version(step, *name)
        if put.expect is not None and put.expect != current:
            return False
        versions[name] = 0 if put.value is None else max(current + 1, step.now)
    return True


def _there(step: Step, spot: Spot, wait: Wait) -> bool:
    if wait.on is not None:
        return version(step, wait.on.kind, wait.on.key) > wait.on.after
    if wait.reason is WaitReason.CHILDREN:
        row = step.row(SQL.delivered, spot.seq)
        return row is not None and row[0] >= wait.children
    return False


def _uncharged(spot: Spot) -> Spot:
    return spot._replace(attempt=spot.attempt - 1)
