"""Keeps leases alive, hears what others want of them, and says that this worker lives.

In production it has a thread, an event loop and a connection of its own, so that neither a handler that blocks the
worker's loop nor a busy pool costs a lease.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from packhorse.engine.bell import first
from packhorse.engine.context import Context
from packhorse.engine.judge import Cause
from packhorse.errors import StoreError
from packhorse.model import backoff, caps
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.lease import Renewed
from packhorse.model.worker import Worker
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)
LAST_WORDS = caps.SECOND // 2


class Kept(Protocol):
    """What the keeper needs of its worker; called from the keeper's thread."""

    def held(self) -> Sequence[Context]:
        """All attempts whose leases must not run out."""

    def ask_to_stop(self, ctx: Context, cause: Cause) -> None:
        """Ask an attempt to stop."""


class Keeper:
    """Renews every third of a lease; an attempt whose lease could not be renewed in time is stopped before it ends."""

    def __init__(
        self,
        store: Store,
        kept: Kept,
        worker: Callable[[], Worker],
        *,
        lease: int,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
    ) -> None:
        self._store, self._kept, self._worker = store, kept, worker
        self._lease, self._margin = lease, min(max(caps.SECOND, lease // 6), lease // 3)
        self._clock, self._chance, self._telemetry = clock, chance, telemetry
        self._opened = False

    async def run(self) -> None:
        """Renew and beat until cancelled, then say goodbye."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._keep())
                both.create_task(self._watch())
        finally:
            await first(self._goodbye(), self._clock.sleep(LAST_WORDS))

    async def _keep(self) -> None:
        failures = 0
        while True:
            try:
                if not self._opened:
                    await self._store.open()
                    self._opened = True
                await self._renew()
                await self._store.fleet.beat(self._worker(), self._lease)
                failures = 0
            except Exception as error:  # noqa: BLE001 - whatever it is, leases must be renewed if they can be
                failures += 1
                self._telemetry.emit(Name.RENEWAL_FAILED, error=error, count=failures)
            third = round(self._lease / 3 * (0.9 + 0.1 * self._chance()))
            pause = PAUSES.delay(failures, self._chance()) if failures else third
            await self._clock.sleep(min(pause, third))

    async def _renew(self) -> None:
        held = self._kept.held()
        for start in range(0, len(held), caps.ITEMS):
            part = held[start : start + caps.ITEMS]
            sent = self._clock.steady()
            answers = await self._store.jobs.renew([ctx.lease for ctx in part], self._lease)
            for ctx, answer in zip(part, answers, strict=True):
                self._heard(ctx, answer, sent)

    def _heard(self, ctx: Context, answer: Renewed, sent: int) -> None:
        if answer is Renewed.LOST:
            self._kept.ask_to_stop(ctx, Cause.LOST)
        elif answer is not Renewed.BUSY:
            ctx.valid_until = sent + self._lease
            if answer is Renewed.CANCELLING:
                self._kept.ask_to_stop(ctx, Cause.CANCEL)

    async def _watch(self) -> None:
        """Stop what could not be renewed, also while a renewal hangs. One that is late once may just have woken up."""
        late: set[Context] = set()
        while True:
            await self._clock.sleep(self._margin // 4)
            now = self._clock.steady()
            before, late = late, {ctx for ctx in self._kept.held() if now > ctx.valid_until - self._margin}
            for ctx in before & late:
                self._kept.ask_to_stop(ctx, Cause.LAPSED)

    async def _goodbye(self) -> None:
        with suppress(StoreError):  # its last beat will run out by itself
            await self._store.fleet.beat(self._worker(), 0)
        await self._store.close()
