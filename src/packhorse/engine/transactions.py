"""Attempts whose writes are committed with their settlement: one transaction, under the token of the lease.

The right to settle is taken before the commit: whoever has it, the attempt or the worker on its behalf, is the only one
to write. If nobody knows whether the commit happened, the attempt is settled as failed, in the usual way: if it was
committed after all, the token has been used, and nothing changes.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

from packhorse.engine.attempt import Attempts
from packhorse.engine.context import Context
from packhorse.engine.settler import Ended
from packhorse.engine.tx import Awaited, Blocking
from packhorse.errors import TransactionTooLong
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

T = TypeVar("T")

ENDING_SECONDS = 2.0  # for a rollback, and for a commit that goes on when its attempt is told to stop
LIMIT = 2 * caps.SECOND  # where a transaction holds up all other writers; less if leases are short


class Transactions:
    """Runs attempts in transactions. What comes of them is told on the loop: a verdict, or how they are to be settled."""

    def __init__(
        self,
        store: Store,
        attempts: Attempts,
        *,
        lease: int,
        clock: Clock,
        telemetry: Telemetry,
        heard: Callable[[Ended, Verdict], None],
        failed: Callable[[Context, Settlement | None], None],
    ) -> None:
        self._store, self._attempts = store, attempts
        self._limit = min(LIMIT, lease // 6)
        self._clock, self._telemetry = clock, telemetry
        self._heard, self._failed = heard, failed
        self._loop = asyncio.get_running_loop()
        self._undoing: set[asyncio.Task[None]] = set()

    async def run(self, ctx: Context) -> Settlement | None:
        """Run an attempt on the loop, and answer what is to be settled in the usual way; None if nothing is."""
        assert ctx.entry.transaction is not None
        own = ctx.entry.transaction.on_loop(self._store, self._limit)
        ctx.transaction = own
        try:
            await own.enter()
        except BaseException as error:  # noqa: BLE001 - it failed like a handler that cannot connect
            await self._roll_back(own)
            return self._attempts.judged(ctx, error)
        settlement = await self._attempts.run(ctx)
        return await _to_its_end(self._end(ctx, own, settlement)) if own.begun else settlement

    async def _end(self, ctx: Context, own: Awaited, settlement: Settlement | None) -> Settlement | None:
        if not _done(settlement):
            await self._roll_back(own)
            return self._undone(ctx, settlement)
        if not ctx.end():
            await self._roll_back(own)
            return None
        try:
            verdict = await own.settle(settlement)
        except BaseException as error:  # noqa: BLE001 - nothing is written, or the token knows that it is
            if await self._roll_back(own):
                self._not_settled(ctx, error)
            else:  # it may hold locks that a settlement would wait for: let the lease run out
                self._failed(ctx, None)
        else:
            self._settled(ctx, settlement, verdict)
        return None

    async def _roll_back(self, own: Awaited) -> bool:
        """Roll back, and say whether that is over; if it takes too long it goes on by itself."""
        undoing = self._begun(own.roll_back())
        await _waited(undoing)
        return undoing.done()

    def _begun(self, undoing: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(undoing)
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)
        return task

    def run_here(self, ctx: Context) -> Settlement | None:
        """Run an attempt in the calling thread."""
        assert ctx.entry.transaction is not None
        own = ctx.entry.transaction.in_thread(self._store, self._limit, self._loop)
        ctx.transaction = own
        try:
            own.enter()
        except BaseException as error:  # noqa: BLE001
            own.roll_back()
            return self._attempts.judged(ctx, error)
        settlement = self._attempts.run_here(ctx)
        return self._end_here(ctx, own, settlement) if own.begun else settlement

    def _end_here(self, ctx: Context, own: Blocking, settlement: Settlement | None) -> Settlement | None:
        if not _done(settlement):
            own.roll_back()
            return self._undone(ctx, settlement)
        if not ctx.end():
            own.roll_back()
            return None
        try:
            verdict = own.settle(settlement)
        except BaseException as error:  # noqa: BLE001
            own.roll_back()
            self._loop.call_soon_threadsafe(self._not_settled, ctx, error)
        else:
            self._loop.call_soon_threadsafe(self._settled, ctx, settlement, verdict)
        return None

    def abandon(self, ctx: Context) -> None:
        """Undo at once what an attempt wrote that is told to stop, whenever it does stop."""
        own = ctx.transaction
        if own is not None and own.begun and (undoing := own.abandon()) is not None:
            self._begun(undoing)

    # -- what came of it

    def _settled(self, ctx: Context, settlement: Settlement, verdict: Verdict) -> None:
        ctx.took = self._clock.steady() - ctx.begun
        if verdict is Verdict.REPEATED:  # by somebody else: we settle once
            verdict = Verdict.LOST
        if verdict is Verdict.LOST:
            self._tell(ctx, "its lease was lost")
        self._heard(Ended(settlement, ctx), verdict)

    def _not_settled(self, ctx: Context, error: BaseException) -> None:
        self._failed(ctx, self._undone(ctx, self._attempts.judged(ctx, error)))

    def _undone(self, ctx: Context, settlement: Settlement | None) -> Settlement | None:
        if settlement is None:
            self._tell(ctx, "its lease was lost")
        elif _too_long(settlement):
            self._tell(ctx, "it took too long")
        return settlement

    def _tell(self, ctx: Context, why: str) -> None:
        self._telemetry.emit(Name.ROLLED_BACK, lease=ctx.lease, reason=why)


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
