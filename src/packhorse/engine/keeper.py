"""Keeps leases alive, hears what others want of them, and says that this worker lives.

In production it has a thread, an event loop and a connection of its own, so that neither a handler that blocks the
worker's loop nor a busy pool costs a lease.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from packhorse.engine.bell import first
from packhorse.engine.context import Context
from packhorse.engine.crew import Crew
from packhorse.engine.judge import Cause
from packhorse.engine.notes import Notes
from packhorse.errors import StoreError
from packhorse.model import backoff, caps
from packhorse.model.chance import Chance
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease, Renewed, Settlement, Verdict
from packhorse.model.outcome import Again
from packhorse.model.worker import Worker
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

PAUSES = backoff.exponential(0.05, cap=1, jitter=0.5)
LAST_WORDS = caps.SECOND // 2
SLOW_STORE = 3 * caps.SECOND  # for the last words to a store that has answered so far
CLOSING = 4 * caps.SECOND  # a slow disk may keep a store from closing at once


class Kept:
    """The attempts of a worker as its keeper reaches them, from another thread than that of their loop."""

    def __init__(self, crew: Crew, notes: Notes) -> None:
        self._crew, self._notes, self._loop = crew, notes, asyncio.get_running_loop()
        self.unsettled = crew.unsettled

    def held(self) -> tuple[Context, ...]:
        """All attempts whose leases must not run out."""
        return tuple(self._crew.held.values())

    def take_unstarted(self) -> list[Context]:
        """Take out what has not begun: it will not be run."""
        return [*self._crew.take_unstarted(), *self._crew.take_created()]

    def notes(self) -> list[tuple[Lease, bytes]]:
        """Progress that is not stored yet."""
        return self._notes.waiting[: caps.ITEMS]

    def ask_to_stop(self, ctx: Context, cause: Cause) -> None:
        """Ask an attempt to stop."""
        with suppress(RuntimeError):  # the loop is closed: there is nothing left to stop
            self._loop.call_soon_threadsafe(self._crew.stop, ctx, cause)

    def returned(self, ctxs: Sequence[Context]) -> None:
        """Let go of what was taken out and is given back."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._crew.returned, ctxs)


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
        self._opened = self._answered = False
        self._taken: list[Context] = []

    async def run(self) -> None:
        """Renew and beat until cancelled, then say goodbye."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._keep())
                both.create_task(self._watch())
        finally:
            await self._goodbye()

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._answered = False
            try:
                if not self._opened:
                    await self._store.open()
                    self._opened = True
                await self._give_back()
                await self._renew()
                await self._store.fleet.beat(self._worker(), self._lease)
                self._answered, failures = True, 0
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

    async def relieve(self) -> None:
        """Settle what has ended and hand back what has not begun, for a loop that does not answer.

        The loop will settle once more what has ended, and hear that it is a repeat.
        """
        try:
            await self._store.jobs.note(self._kept.notes())
            for settlement in self._kept.unsettled():
                await self._store.jobs.exchange([settlement])
            self._taken += [ctx for ctx in self._kept.take_unstarted() if ctx.end()]
            await self._give_back()
        except Exception as error:  # noqa: BLE001 - it is tried again
            self._telemetry.emit(Name.EXCHANGE_FAILED, error=error, count=1)

    async def _give_back(self) -> None:
        while part := self._taken[: caps.ITEMS]:
            back = [Settlement(ctx.lease, Again(charged=False)) for ctx in part]
            verdicts = (await self._store.jobs.exchange(back)).verdicts
            del self._taken[: len(part)]
            for ctx, verdict in zip(part, verdicts, strict=True):
                name = Name.LEASE_LOST if verdict is Verdict.LOST else Name.HANDED_BACK
                self._telemetry.emit(name, lease=ctx.lease)
            self._kept.returned(part)

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
        await first(self._say_goodbye(), self._clock.sleep(SLOW_STORE if self._answered else LAST_WORDS))
        await first(self._store.close(), self._clock.sleep(CLOSING))

    async def _say_goodbye(self) -> None:
        with suppress(StoreError):  # its last beat will run out by itself
            await self._store.fleet.beat(self._worker(), 0)
