"""The one round trip in flight: settle what has ended, claim what there is room for; again, until the worker stops.

No timers: what ends while an exchange is under way goes with the next one. A worker with nothing to do parks a claim for
one job at a store that can wait.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count

from msgspec.structs import replace

from packhorse.engine.attempt import Attempt
from packhorse.engine.budget import Budget
from packhorse.engine.judge import Cause
from packhorse.engine.parked_claim import PARKED_MAX_US, ParkedClaim, again
from packhorse.engine.progress import ProgressWriter
from packhorse.engine.settlement_queue import PendingSettlement, SettlementQueue
from packhorse.engine.shares import Prefetch, Shares
from packhorse.engine.slots import Slots
from packhorse.engine.verdicts import Verdicts
from packhorse.engine.wakeup import Wakeup
from packhorse.errors import (
    ConfigError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreDamaged,
    StoreUnavailable,
)
from packhorse.model import backoff, limits
from packhorse.model.clock import Clock
from packhorse.model.lease import ClaimRequest, Exchange, Share
from packhorse.model.outcome import Held
from packhorse.model.randomness import Randomness
from packhorse.stores.contract import Store, Topic, WorkHint, WorkListener
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

RETRY_BACKOFF = backoff.exponential(0.05, cap=1, jitter=0.5)
POLL_US = 1_000_000  # hints may be missed: look at least so often
FATAL_ERRORS = (ConfigError, SchemaMismatch, StoreClosed, StoreDamaged)


class ExchangeLoop:
    """Keeps exchanging. ``last`` is the steady moment of the last answer: the sign that this worker lives."""

    def __init__(
        self,
        store: Store,
        slots: Slots,
        queue: SettlementQueue,
        shares: Shares,
        verdicts: Verdicts,
        notes: ProgressWriter,
        *,
        worker: bytes,
        lease: int,
        wakeup: Wakeup,
        clock: Clock,
        chance: Randomness,
        telemetry: Telemetry,
    ) -> None:
        self._store, self._slots, self._queue, self._shares = store, slots, queue, shares
        self._worker, self._lease = worker, lease
        self._wakeup, self._clock, self._chance, self._telemetry = wakeup, clock, chance, telemetry
        self._ahead, self._budget = Prefetch(), Budget()
        self._numbers = count(1)
        self._verdicts, self._notes = verdicts, notes
        self._claiming = True
        self._empty_queues: frozenset[str] = frozenset()
        self._next_due: int | None = None
        parking = store.parked_claims
        self._listener: WorkListener | None = None if parking is None else parking.listener(worker)
        self._parked = ParkedClaim(self._listener)
        self._is_idle = False
        self._listening: asyncio.Task[None] | None = None
        self._in_flight: tuple[Sequence[PendingSettlement], ClaimRequest | None] | None = None
        self._failures = 0
        self.idle = asyncio.Event()
        self.answered = self.settled = 0
        self.last = self._last_progress = clock.steady()

    @property
    def failing(self) -> bool:
        """Whether the store did not answer the last exchange."""
        return self._failures > 0

    def stop_claiming(self) -> None:
        """Settle what is held, take no more."""
        self._claiming = False
        if self._listening is not None:
            self._listening.cancel()
        self._wakeup.set()

    async def run(self) -> None:
        """Exchange until nothing is held and no more is wanted. After it was cancelled it may be run again."""
        if self._in_flight is not None:
            batch, ask = self._in_flight
            await self._exchange_once(batch, None if ask is None else again(ask))
        while self._claiming or not self._slots.empty or self._queue.backlog or self._parked.claim is not None:
            if self._queue.take_work_expected():
                self._empty_queues = frozenset()
            self._slots.collect()
            batch = self._queue.take(self._budget.bytes)
            self._slots.start_pending()
            ask = self._next_claim()
            if batch or (ask is not None and not self._empty_queues.issuperset(_queues(ask))):
                await self._exchange_once(batch, ask)
                continue
            if not self._slots.held and (ask is not None or self._parked.claim is not None):
                self.idle.set()
                self._is_idle = True
                self._park_claim()
            if not await self._wakeup.wait(self._pause(ask)):
                self._empty_queues = frozenset()  # time to look
            self._is_idle = False
            self._release_idle_leases()

    async def listen(self) -> None:
        """Turn the store's hints into wakeups."""
        self._listening = asyncio.current_task()
        failures = 0
        while True:
            try:
                async for event in self._events():
                    failures = 0
                    self._on_event(event)
            except StoreUnavailable:
                pass  # the store's own listener reconnects; this is for one that could not even begin
            except FATAL_ERRORS:
                raise
            except Exception as error:  # noqa: BLE001 - hints are only hints: polling goes on without them
                self._telemetry.emit(EventName.EXCHANGE_FAILED, error=error, count=failures + 1)
            finally:
                self._on_event(WorkHint.WORK)
            failures += 1
            await self._clock.sleep(RETRY_BACKOFF.delay(failures, self._chance()))

    def _events(self) -> AsyncIterator[Exchange | WorkHint | None]:
        return self._store.wakes(Topic.WORK) if self._listener is None else self._listener.events()

    def _on_event(self, event: Exchange | WorkHint | None) -> None:
        match event:
            case WorkHint.WAITING if not self._parked.claim:
                self._park_claim()
            case Exchange() if self._parked.claim is not None:
                self._answered()
                self._empty_queues |= _queues(self._parked.claim)
                self._accept(self._parked.claim, event, self._parked.parked_at)
                self._wakeup.set()
            case _:
                self._parked.miss()
                self._queue.expect_work()

    def _park_claim(self) -> None:
        """Claim one job as soon as there is one, if nothing runs here that could keep it waiting."""
        if not self._is_idle or not self._parked.wanted or self._lease < 3 * PARKED_MAX_US:
            return  # a lease counts from when the claim was parked
        now = self._clock.steady()
        if self._next_due is not None and self._next_due < now + PARKED_MAX_US:
            return  # to be on time for it
        claim = self._claim_request(min(1, self._slots.room(0)))
        if claim is not None:
            self._parked.park(claim, now)

    # -- one round

    def _next_claim(self) -> ClaimRequest | None:
        if self._parked.claim is not None:
            return self._parked.claim if self._parked.missed else None
        if not self._claiming:
            return None
        return self._claim_request(min(self._slots.room(self._ahead.count), self._budget.jobs))

    def _claim_request(self, room: int) -> ClaimRequest | None:
        shares = _bounded(
            [self._slots.batch_share(share) for share in self._shares.divide(room, self._slots.queue_room())]
        )
        if not shares:
            return None
        return ClaimRequest(self._worker, shares, self._lease, number=next(self._numbers), max_bytes=self._budget.bytes)

    async def _exchange_once(self, batch: Sequence[PendingSettlement], ask: ClaimRequest | None) -> None:
        self.idle.clear()
        batch = self._verdicts.checked(batch)
        sent = self._clock.steady()
        if ask is not None:
            self._empty_queues |= _queues(ask)  # until a hint comes, also during this exchange
        self._in_flight = batch, ask
        batch, answer = await self._send(batch, ask)
        self._in_flight = None
        self._ahead.record_durations(
            [
                it.attempt.duration
                for it in batch
                if it.attempt is not None and it.attempt.started_at and type(it.settlement.outcome) is not Held
            ]
        )
        if batch:
            self._last_progress = self._clock.steady()
        if answer is None:
            self._empty_queues = frozenset()
        elif ask is not None:
            self._accept(ask, answer, sent)

    def _accept(self, ask: ClaimRequest, answer: Exchange, sent: int) -> None:
        if ask is self._parked.claim:
            self._parked.clear()
        self._shares.record_claim(ask.shares, answer.leases)
        self._next_due = None if answer.next_due is None else self.last + answer.next_due - answer.now
        if answer.more:
            self._empty_queues = frozenset()
        if answer.leases:
            self._last_progress = self._clock.steady()
            self.idle.clear()
            left = min([lease.until for lease in answer.leases]) - answer.now  # less than asked for if it was repeated
            self._slots.accept(answer.leases, sent + left)
        if not self._claiming:
            self._slots.drain()

    async def _send(
        self, batch: Sequence[PendingSettlement], ask: ClaimRequest | None
    ) -> tuple[Sequence[PendingSettlement], Exchange | None]:
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
                await self._back_off(error)
                self._queue.put_back(batch)
                batch = settled = self._verdicts.checked(self._queue.take(self._budget.bytes))
                ask = None if ask is None else again(ask, self._budget.bytes)
                self._in_flight = batch, ask
                continue
            except FATAL_ERRORS:
                raise
            except Exception as error:
                if not batch and not self.answered:
                    raise  # wrong from the start: say so instead of trying for ever
                await self._back_off(error)
                self._stop_lost(await self._verdicts.settle_in_parts(batch))
                if ask is None or not once_more:
                    return settled, None
                batch, ask, once_more = (), again(ask), False
                continue
            self._stop_lost(self._verdicts.handle(batch, answer.verdicts))
            self.settled += len(batch)
            self._answered()
            self._budget.answered(ask, answer, self.last - sent)
            return settled, answer

    def _stop_lost(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._slots.stop(attempt, Cause.LOST)

    async def _back_off(self, error: Exception) -> None:
        self._failures += 1
        self._telemetry.emit(EventName.EXCHANGE_FAILED, error=error, count=self._failures)
        await self._clock.sleep(RETRY_BACKOFF.delay(self._failures, self._chance()))

    def _answered(self) -> None:
        self.last = self._clock.steady()
        self.answered += 1
        if self._failures:
            self._telemetry.emit(EventName.STORE_RECOVERED, count=self._failures)
            self._failures = 0

    # -- waiting

    def _release_idle_leases(self) -> None:
        """Jobs were leased ahead because others were short; if for a while none has ended, let other workers have them."""
        if self._slots.pending and self._clock.steady() - self._last_progress >= POLL_US:
            self._ahead.reset()
            self._slots.release_unstarted()

    def _pause(self, ask: ClaimRequest | None) -> int | None:
        """How long to wait for a wakeup: until the next job is due or the next poll, or for ever if there is no room."""
        poll = round(POLL_US * (0.8 + 0.4 * self._chance()))
        if ask is None:
            return poll if self._slots.pending else None
        if self._next_due is None:
            return poll
        return max(0, min(poll, self._next_due - self._clock.steady()))


def _bounded(shares: list[Share]) -> tuple[Share, ...]:
    """Shares that fit in one ask; those at the end give way."""
    left = limits.ITEMS
    fitting = []
    for share in shares:
        count = min(share.count, left)
        left -= count
        fitting.append(share if count == share.count else replace(share, count=count))
    return tuple(fitting)


def _queues(ask: ClaimRequest) -> frozenset[str]:
    return frozenset(share.queue for share in ask.shares)
