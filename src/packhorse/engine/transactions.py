"""AttemptRunner whose writes are committed with their settlement: one transaction, under the token of the lease.

The right to settle is taken before the commit: whoever has it, the attempt or the worker on its behalf, is the only one
to write. If nobody knows whether the commit happened, the attempt is settled as failed, in the usual way: if it was
committed after all, the token has been used, and nothing changes.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

from packhorse.engine.attempt import Attempt
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.held_leases import HeldLeases
from packhorse.engine.progress import ProgressWriter
from packhorse.engine.settlement_queue import PendingSettlement, SettlementQueue
from packhorse.engine.tx import AsyncAttemptTx, SyncAttemptTx
from packhorse.engine.verdicts import Verdicts
from packhorse.errors import TransactionTooLong
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

T = TypeVar("T")

ENDING_SECONDS = 2.0  # for a rollback, and for a commit in progress when its attempt is stopped
MAX_HOLD_US = 2 * limits.SECOND  # where a transaction holds up all other writers; less if leases are short


class Transactions:
    """Runs attempts in transactions. Verdicts, and settlements where there is none, are handled on the worker's loop."""

    def __init__(
        self,
        store: Store,
        runner: AttemptRunner,
        held: HeldLeases,
        verdicts: Verdicts,
        queue: SettlementQueue,
        notes: ProgressWriter,
        *,
        lease: int,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._store, self._runner = store, runner
        self._held, self._verdicts, self._queue, self._notes = held, verdicts, queue, notes
        self._limit = min(MAX_HOLD_US, lease // 6)
        self._clock, self._telemetry = clock, telemetry
        self._loop = asyncio.get_running_loop()
        self._undoing: set[asyncio.Task[None]] = set()

    async def run(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt on the loop, and answer what is to be settled in the usual way; None if nothing is."""
        assert attempt.entry.transaction is not None
        own = attempt.entry.transaction.on_loop(self._store, self._limit)
        attempt.transaction = own
        try:
            await own.enter()
        except BaseException as error:  # noqa: BLE001 - it failed like a handler that cannot connect
            await self._roll_back(own)
            return self._runner.judged(attempt, error)
        settlement = await self._runner.run(attempt)
        return await _to_its_end(self._end(attempt, own, settlement)) if own.begun else settlement

    async def _end(self, attempt: Attempt, own: AsyncAttemptTx, settlement: Settlement | None) -> Settlement | None:
        if not _done(settlement):
            await self._roll_back(own)
            return self._undone(attempt, settlement)
        if not attempt.try_end():
            await self._roll_back(own)
            return None
        try:
            self._verdicts.raise_if_refused(attempt)
            verdict = await own.settle(settlement, self._notes.of(attempt), attempt.unwritten_steps())
        except BaseException as error:  # noqa: BLE001 - nothing is written, or the token knows that it is
            if await self._roll_back(own):
                self._not_settled(attempt, error)
            else:  # it may hold locks that a settlement would wait for: let the lease run out
                self._held.settle(attempt, None)
        else:
            self._settled(attempt, settlement, verdict)
        return None

    async def _roll_back(self, own: AsyncAttemptTx) -> bool:
        """Roll back, and say whether that is over; if it takes too long it goes on by itself."""
        undoing = self._begun(own.roll_back())
        await _waited(undoing)
        return undoing.done()

    def _begun(self, undoing: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(undoing)
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)
        return task

    def run_here(self, attempt: Attempt) -> Settlement | None:
        """Run an attempt in the calling thread."""
        assert attempt.entry.transaction is not None
        own = attempt.entry.transaction.in_thread(self._store, self._limit, self._loop)
        attempt.transaction = own
        try:
            own.enter()
        except BaseException as error:  # noqa: BLE001
            own.roll_back()
            return self._runner.judged(attempt, error)
        settlement = self._runner.run_here(attempt)
        return self._end_here(attempt, own, settlement) if own.begun else settlement

    def _end_here(self, attempt: Attempt, own: SyncAttemptTx, settlement: Settlement | None) -> Settlement | None:
        if not _done(settlement):
            own.roll_back()
            return self._undone(attempt, settlement)
        if not attempt.try_end():
            own.roll_back()
            return None
        try:
            self._verdicts.raise_if_refused(attempt)
            verdict = own.settle(settlement, self._notes.of(attempt), attempt.unwritten_steps())
        except BaseException as error:  # noqa: BLE001
            own.roll_back()
            self._loop.call_soon_threadsafe(self._not_settled, attempt, error)
        else:
            self._loop.call_soon_threadsafe(self._settled, attempt, settlement, verdict)
        return None

    def abandon(self, attempt: Attempt) -> None:
        """Roll back at once what a stopped attempt wrote, whenever it does end."""
        own = attempt.transaction
        if own is not None and own.begun and (undoing := own.abandon()) is not None:
            self._begun(undoing)

    # -- what came of it

    def _settled(self, attempt: Attempt, settlement: Settlement, verdict: Verdict) -> None:
        attempt.duration = self._clock.steady() - attempt.started_at
        if verdict is Verdict.REPEATED:  # by somebody else: we settle once
            verdict = Verdict.LOST
        if verdict is Verdict.LOST:
            self._tell(attempt, "its lease was lost")
        self._notes.drop(attempt)
        attempt.settled_by_commit()
        self._verdicts.handle([PendingSettlement(settlement, attempt)], [verdict])
        self._queue.expect_work()

    def _not_settled(self, attempt: Attempt, error: BaseException) -> None:
        self._held.settle(attempt, self._undone(attempt, self._runner.judged(attempt, error)))

    def _undone(self, attempt: Attempt, settlement: Settlement | None) -> Settlement | None:
        if settlement is None:
            self._tell(attempt, "its lease was lost")
        elif _too_long(settlement):
            self._tell(attempt, "it took too long")
        return settlement

    def _tell(self, attempt: Attempt, why: str) -> None:
        self._telemetry.emit(EventName.ROLLED_BACK, lease=attempt.lease, reason=why)


def _done(settlement: Settlement | None) -> TypeGuard[Settlement]:
    return settlement is not None and type(settlement.outcome) is Done


def _too_long(settlement: Settlement) -> bool:
    error = getattr(settlement.outcome, "error", None)
    return error is not None and str(error.type).endswith(TransactionTooLong.__name__)


async def _to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns. If the caller is cancelled it has two seconds to end, then it is cancelled itself."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _waited(task)
        if not task.done():
            task.cancel()
            await _waited(task, 2)  # it rolls back now
        if not task.done():
            raise
    return task.result()


async def _waited(task: "asyncio.Future[Any]", times: int = 1) -> None:
    """Wait for a task, but not for long, however often the caller is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + times * ENDING_SECONDS
    while not task.done() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
