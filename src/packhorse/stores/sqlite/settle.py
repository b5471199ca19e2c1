"""Outcomes are written: each settlement whole or not at all, guarded by the token of its lease."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress, groupby
from typing import Any, assert_never

import msgspec

from packhorse.model import limits
from packhorse.model.effect import Effect, Enqueue, Publish, Put
from packhorse.model.event import Change
from packhorse.model.ids import JobId, Token
from packhorse.model.job import KEEP_DONE, Failure, State
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores.sqlite.end_writer import EndWriter, LeaseRow
from packhorse.stores.sqlite.enqueue import enqueue
from packhorse.stores.sqlite.lanes import hand_on
from packhorse.stores.sqlite.places import Flag, PlacedJob, WaitEntry, leave, to_ready, to_scheduled, to_waiting
from packhorse.stores.sqlite.records import expected, version, write
from packhorse.stores.sqlite.streams import append
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json, seqs_of


class SettlementWriter:
    """Settlements of one exchange, in order. Plain ends are gathered and written together."""

    def __init__(self, step: UnitOfWork, leases: Sequence[Lease]) -> None:
        self._step = step
        self._ends = EndWriter(step)
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
        step, placed = self._step, PlacedJob._make(held[:6])
        if isinstance(outcome, Held):
            step.run(SQL.hold_step, placed.seq, outcome.step)
            self._held[placed.seq] = (*placed, held[6], outcome.step, held[8])
            self._effects(effects)
            step.changed(Change.HELD, [lease.id])
            return
        del self._held[placed.seq]
        self._gone.append(placed)
        if held[8] and isinstance(outcome, Again | Wait):
            if isinstance(outcome, Again):
                remember(step, placed, lease.token, outcome.error)
            outcome, effects = Cancelled(KEEP_DONE), ()
        match outcome:
            case Done(result, keep):
                self._ends.add(placed, State.DONE, keep, lease.token, result=result)
                step.changed(Change.DONE, [lease.id])
            case Dead(reason, error, keep):
                remember(step, placed, lease.token, error)
                self._ends.add(placed, State.DEAD, keep, lease.token, reason=reason)
                step.changed(Change.DEAD, [lease.id])
            case Cancelled(keep, error):
                if error is not None:
                    remember(step, placed, lease.token, error)
                self._ends.add(placed, State.CANCELLED, keep, lease.token)
                step.changed(Change.CANCELLED, [lease.id])
            case Again(delay, error, charged):
                remember(step, placed, lease.token, error)
                self._effects(effects)
                self._again(lease, placed if charged else _uncharged(placed), delay)
                return
            case Wait():
                remember(step, placed, lease.token, None)
                self._effects(effects)
                self._wait(lease, _uncharged(placed), outcome)
                return
            case _:
                assert_never(outcome)
        self._effects(effects)

    def _again(self, lease: Lease, placed: PlacedJob, delay: int) -> None:
        step = self._flushed()
        (to_scheduled if delay else to_ready)(step, [(placed, step.now + delay)])
        step.changed(Change.AGAIN, [lease.id])

    def _wait(self, lease: Lease, placed: PlacedJob, wait: Wait) -> None:
        step = self._flushed()
        if _there(step, placed, wait):
            to_ready(step, [(placed, step.now)])
            step.changed(Change.AGAIN, [lease.id])
        else:
            pending, slot = (
                (wait.children, 0) if wait.reason is WaitReason.CHILDREN else (None, placed.flags & Flag.SLOT)
            )
            waiting = placed._replace(flags=placed.flags & ~Flag.SLOT | slot)
            to_waiting(step, [(waiting, WaitEntry(wait.reason, wait.detail, pending=pending, on=wait.on))])
            if waiting != placed:  # its children may be behind the same lane
                hand_on(step, Counter([(placed.queue, str(lease.lane))]))
            step.changed(Change.WAITING, [lease.id])

    def _effects(self, effects: Sequence[Effect]) -> None:
        if effects:
            apply(self._flushed(), effects)

    def _flushed(self) -> UnitOfWork:
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


def refs(step: UnitOfWork, leases: Sequence[Lease]) -> list[int]:
    """The rowids of leased jobs: carried by the lease, or looked up by id."""
    unknown = [lease.id for lease in leases if not lease.ref]
    if not unknown:
        return [lease.ref for lease in leases]
    found = dict(zip(unknown, seqs_of(step, unknown), strict=True))
    return [lease.ref or found[lease.id] or 0 for lease in leases]


def keep_notes(step: UnitOfWork, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
    """Keep the latest progress of running jobs."""
    seqs = refs(step, [lease for lease, _ in notes])
    tokens = {row[0]: row[6] for row in step.rows(SQL.leases_of, as_json(seqs))} if seqs else {}
    answers = []
    for (lease, progress), seq in zip(notes, seqs, strict=True):
        mine = tokens.get(seq) == lease.token
        if mine:
            step.run(SQL.note, seq, progress)
        answers.append(Verdict.WRITTEN if mine else Verdict.LOST)
    return answers


def remember(step: UnitOfWork, placed: PlacedJob, token: Token | None, error: Failure | None) -> None:
    """Keep what an attempt left behind: the token for a repeat, the failure for people."""
    data = None if error is None else msgspec.json.encode(error)
    step.run(SQL.add_try, placed.seq, step.next(), token, placed.attempt, step.now, data)
    step.run(SQL.forget_tries, placed.seq, error is not None, limits.FAILURES)


def apply(step: UnitOfWork, effects: Sequence[Effect]) -> None:
    """Write effects in their order; jobs that stand together are stored together."""
    jobs = [effect.job for effect in effects if isinstance(effect, Enqueue)]
    if jobs:
        enqueue(step, jobs)
    append(step, [effect for effect in effects if isinstance(effect, Publish)])
    for effect in effects:
        if isinstance(effect, Put):
            write(step, effect)


def fire(step: UnitOfWork, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
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


def _met(step: UnitOfWork, effects: Sequence[Effect]) -> bool:
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


def _there(step: UnitOfWork, placed: PlacedJob, wait: Wait) -> bool:
    if wait.on is not None:
        return version(step, wait.on.kind, wait.on.key) > wait.on.after
    if wait.reason is WaitReason.CHILDREN:
        row = step.row(SQL.delivered, placed.seq)
        return row is not None and row[0] >= wait.children
    return False


def _uncharged(placed: PlacedJob) -> PlacedJob:
    return placed._replace(attempt=placed.attempt - 1)
