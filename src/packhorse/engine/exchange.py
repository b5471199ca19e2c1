"""The one round trip in flight: settle what has ended, claim what there is room for; again, until the worker stops.

No timers: what ends while an exchange is under way goes with the next one. A worker with nothing to do leaves an ask for
one job with a store that can wait.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

from packhorse.engine.bell import Bell
from packhorse.engine.budget import Budget
from packhorse.engine.crew import Crew
from packhorse.engine.feeder import Ahead, Shares
from packhorse.engine.notes import Notes
from packhorse.engine.settler import Ended, Settler
from packhorse.engine.standing import LONGEST, Standing, again
from packhorse.engine.verdicts import Verdicts
from packhorse.errors import (
    ConfigError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreDamaged,
    StoreUnavailable,
)
from packhorse.model import backoff, caps
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.lease import Ask, Exchange, Share
from packhorse.model.outcome import Held
from packhorse.stores.contract import Leave, Store, Topic
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)
POLL = 1_000_000  # hints may be missed: look at least so often
HOPELESS = (ConfigError, SchemaMismatch, StoreClosed, StoreDamaged)


class Exchanges:
    """Keeps exchanging. ``last`` is the steady moment of the last answer: the sign that this worker lives."""

    def __init__(
        self,
        store: Store,
        crew: Crew,
        settler: Settler,
        shares: Shares,
        verdicts: Verdicts,
        notes: Notes,
        *,
        worker: bytes,
        lease: int,
        bell: Bell,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
    ) -> None:
        self._store, self._crew, self._settler, self._shares = store, crew, settler, shares
        self._worker, self._lease = worker, lease
        self._bell, self._clock, self._chance, self._telemetry = bell, clock, chance, telemetry
        self._ahead, self._budget = Ahead(), Budget()
        self._numbers = count(1)
        self._verdicts, self._notes = verdicts, notes
        self._claiming = True
        self._dry: frozenset[str] = frozenset()
        self._next: int | None = None
        self._standing = Standing()
        self._resting = False
        self._ear: asyncio.Task[None] | None = None
        self._under_way: tuple[Sequence[Ended], Ask | None] | None = None
        self._failures = 0
        self.idle = asyncio.Event()
        self.answered = self.settled = 0
        self.last = self._moved = clock.steady()

    @property
    def failing(self) -> bool:
        """Whether the store did not answer the last exchange."""
        return self._failures > 0

    def stop_claiming(self) -> None:
        """Settle what is held, take no more."""
        self._claiming = False
        if self._ear is not None:
            self._ear.cancel()
        self._bell.ring()

    def look(self) -> None:
        """There may be work, made by what was settled elsewhere."""
        self._dry = frozenset()
        self._bell.ring()

    async def run(self) -> None:
        """Exchange until nothing is held and no more is wanted. After it was cancelled it may be run again."""
        if self._under_way is not None:
            batch, ask = self._under_way
            await self._one(batch, None if ask is None else again(ask))
        while self._claiming or not self._crew.empty or self._settler.backlog or self._standing.ask is not None:
            self._crew.collect()
            batch = self._settler.take(self._budget.bytes)
            self._crew.fill()
            ask = self._ask()
            if batch or (ask is not None and not self._dry.issuperset(_queues(ask))):
                await self._one(batch, ask)
                continue
            if not self._crew.held and (ask is not None or self._standing.ask is not None):
                self.idle.set()
                self._resting = True
                self._leave_ask()
            if not await self._bell.wait(self._pause(ask)):
                self._dry = frozenset()  # time to look
            self._resting = False
            self._let_others()

    async def hear(self) -> None:
        """Turn the store's hints into rings, as long as it has any."""
        self._ear = asyncio.current_task()
        failures = 0
        while True:
            try:
                async for brought in self._store.wakes(Topic.WORK, self._may_leave, self._worker):
                    failures = 0
                    self._heard(brought)
            except StoreUnavailable:
                pass  # the store's own listener reconnects; this is for one that could not even begin
            except HOPELESS:
                raise
            except Exception as error:  # noqa: BLE001 - hints are only hints: polling goes on without them
                self._telemetry.emit(Name.EXCHANGE_FAILED, error=error, count=failures + 1)
            finally:
                self._heard(None)
            failures += 1
            await self._clock.sleep(PAUSES.delay(failures, self._chance()))

    # -- an ask that is left

    def _may_leave(self, leave: Leave | None) -> None:
        self._standing.may_leave(leave)
        if self._standing.missed:
            self.look()
        else:
            self._leave_ask()

    def _leave_ask(self) -> None:
        """Ask for one job as soon as there is one, if nothing runs here that could keep it waiting."""
        if not self._resting or not self._standing.wanted or self._lease < 3 * LONGEST:
            return  # a lease counts from when the ask was left
        now = self._clock.steady()
        if self._next is not None and self._next < now + LONGEST:
            return  # to be on time for it
        ask = self._asking(min(1, self._crew.room(0)))
        if ask is not None:
            self._standing.leave(ask, now)

    def _heard(self, brought: Exchange | None) -> None:
        ask = self._standing.ask
        if brought is None or ask is None:
            self._standing.miss()
            self.look()
            return
        self._answered()
        self._dry |= _queues(ask)
        self._took(ask, brought, self._standing.since)
        self._bell.ring()

    # -- one round

    def _ask(self) -> Ask | None:
        if self._standing.ask is not None:
            return self._standing.ask if self._standing.missed else None
        if not self._claiming:
            return None
        return self._asking(min(self._crew.room(self._ahead.count), self._budget.jobs))

    def _asking(self, room: int) -> Ask | None:
        shares = _bounded([self._crew.widened(share) for share in self._shares.divide(room, self._crew.most())])
        if not shares:
            return None
        return Ask(self._worker, shares, self._lease, number=next(self._numbers), max_bytes=self._budget.bytes)

    async def _one(self, batch: Sequence[Ended], ask: Ask | None) -> None:
        self.idle.clear()
        batch = self._verdicts.checked(batch)
        sent = self._clock.steady()
        if ask is not None:
            self._dry |= _queues(ask)  # until a hint comes, also while this is under way and does not see what it means
        self._under_way = batch, ask
        batch, answer = await self._send(batch, ask)
        self._under_way = None
        self._ahead.ended(
            [
                it.ctx.took
                for it in batch
                if it.ctx is not None and it.ctx.begun and type(it.settlement.outcome) is not Held
            ]
        )
        if batch:
            self._moved = self._clock.steady()
        if answer is None:
            self._dry = frozenset()
        elif ask is not None:
            self._took(ask, answer, sent)

    def _took(self, ask: Ask, answer: Exchange, sent: int) -> None:
        if ask is self._standing.ask:
            self._standing.over()
        self._shares.answered(ask.shares, answer.leases)
        self._next = None if answer.next_due is None else self.last + answer.next_due - answer.now
        if answer.more:
            self._dry = frozenset()
        if answer.leases:
            self._moved = self._clock.steady()
            self.idle.clear()
            left = min([lease.until for lease in answer.leases]) - answer.now  # less than asked for if it was repeated
            self._crew.take(answer.leases, sent + left)
        if not self._claiming:
            self._crew.drain()

    async def _send(self, batch: Sequence[Ended], ask: Ask | None) -> tuple[Sequence[Ended], Exchange | None]:
        """One exchange, repeated until the store has answered it; answers what was settled with it.

        It may have been too large, so it is repeated for fewer bytes. The ask keeps its token: leases of an answer that
        was not received come again, or become ready again, uncharged, where they do not fit any more.
        After an error that tells nothing about the store, outcomes are written in parts, and the ask is made once more
        without them: what it has leased must not be left with nobody.
        """
        settled, once_more = batch, True
        while True:
            sent = self._clock.steady()
            try:
                if batch:
                    await self._notes.write_last(batch)
                answer = await self._store.jobs.exchange([ended.settlement for ended in batch], ask)
            except (StoreUnavailable, OutcomeUnknown) as error:
                self._budget.shrink()
                await self._failed(error)
                self._settler.put_back(batch)
                batch = settled = self._verdicts.checked(self._settler.take(self._budget.bytes))
                ask = None if ask is None else again(ask, self._budget.bytes)
                self._under_way = batch, ask
                continue
            except HOPELESS:
                raise
            except Exception as error:
                if not batch and not self.answered:
                    raise  # wrong from the start: say so instead of trying for ever
                await self._failed(error)
                await self._verdicts.apart(batch)
                if ask is None or not once_more:
                    return settled, None
                batch, ask, once_more = (), again(ask), False
                continue
            self._verdicts.heard(batch, answer.verdicts)
            self.settled += len(batch)
            self._answered()
            self._budget.answered(ask, answer, self.last - sent)
            return settled, answer

    async def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._telemetry.emit(Name.EXCHANGE_FAILED, error=error, count=self._failures)
        await self._clock.sleep(PAUSES.delay(self._failures, self._chance()))

    def _answered(self) -> None:
        self.last = self._clock.steady()
        self.answered += 1
        if self._failures:
            self._telemetry.emit(Name.STORE_BACK, count=self._failures)
            self._failures = 0

    # -- waiting

    def _let_others(self) -> None:
        """Jobs were leased ahead because others were short; if for a while none has ended, let other workers have them."""
        if self._crew.in_hand and self._clock.steady() - self._moved >= POLL:
            self._ahead.forget()
            self._crew.hand_back()

    def _pause(self, ask: Ask | None) -> int | None:
        """How long to wait for a ring: until the next job is due or the next poll, or for ever if there is no room."""
        poll = round(POLL * (0.8 + 0.4 * self._chance()))
        if ask is None:
            return poll if self._crew.in_hand else None
        if self._next is None:
            return poll
        return max(0, min(poll, self._next - self._clock.steady()))


def _bounded(shares: list[Share]) -> tuple[Share, ...]:
    """Shares that fit in one ask; those at the end give way."""
    left = caps.ITEMS
    fitting = []
    for share in shares:
        count = min(share.count, left)
        left -= count
        fitting.append(share if count == share.count else Share(share.queue, count, share.most))
    return tuple(fitting)


def _queues(ask: Ask) -> frozenset[str]:
    return frozenset(share.queue for share in ask.shares)
