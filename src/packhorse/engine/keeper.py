"""Keeps leases alive, sees which are to be cancelled, and sends the worker's beats.

In production it has a thread, an event loop and a connection of its own, so that neither a handler that blocks the
worker's loop nor a busy pool costs a lease.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from packhorse.engine.attempt import Attempt
from packhorse.engine.judge import Cause
from packhorse.engine.progress import ProgressWriter
from packhorse.engine.slots import Slots
from packhorse.engine.wakeup import first
from packhorse.errors import StoreError
from packhorse.model import backoff, limits
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease, Renewed, Settlement, Verdict
from packhorse.model.outcome import Again
from packhorse.model.randomness import Randomness
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

RETRY_BACKOFF = backoff.exponential(0.05, cap=1, jitter=0.5)
GOODBYE_US = limits.SECOND // 2
SLOW_STORE_GOODBYE_US = 3 * limits.SECOND  # for the last beat to a store that has answered so far
CLOSE_STORE_US = 4 * limits.SECOND  # a slow disk may keep a store from closing at once


class LeaseHolder:
    """The attempts of a worker as its keeper reaches them, from another thread than that of their loop.

    ``goodbye_until`` is the steady moment by which the keeper should be gone, once the worker stops.
    """

    goodbye_until: int | None = None

    def __init__(self, slots: Slots, notes: ProgressWriter) -> None:
        self._slots, self._notes, self._loop = slots, notes, asyncio.get_running_loop()
        self.unsettled = slots.unsettled

    def held(self) -> tuple[Attempt, ...]:
        """All attempts whose leases must not run out."""
        return tuple(self._slots.held.values())

    def take_unstarted(self) -> list[Attempt]:
        """Take out what has not begun: it will not be run."""
        return [*self._slots.take_unstarted(), *self._slots.take_created(), *self._slots.take_suspects()]

    def notes(self) -> list[tuple[Lease, bytes]]:
        """Progress that is not stored yet."""
        return self._notes.waiting[: limits.ITEMS]

    def ask_to_stop(self, attempt: Attempt, cause: Cause) -> None:
        """Ask an attempt to stop."""
        with suppress(RuntimeError):  # the loop is closed: there is nothing left to stop
            self._loop.call_soon_threadsafe(self._slots.stop, attempt, cause)

    def returned(self, attempts: Sequence[Attempt]) -> None:
        """Let go of what was taken out and is given back."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._slots.returned, attempts)


class Keeper:
    """Renews every third of a lease; an attempt whose lease could not be renewed in time is stopped before it ends."""

    def __init__(
        self,
        store: Store,
        kept: LeaseHolder,
        worker: Callable[[], WorkerInfo],
        *,
        lease: int,
        clock: Clock,
        chance: Randomness,
        telemetry: Telemetry,
    ) -> None:
        self._store, self._kept, self._worker = store, kept, worker
        self._lease, self._margin = lease, min(max(limits.SECOND, lease // 6), lease // 3)
        self._clock, self._chance, self._telemetry = clock, chance, telemetry
        self._opened = self._answered = False
        self._taken: list[Attempt] = []

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
                self._telemetry.emit(EventName.RENEWAL_FAILED, error=error, count=failures)
            third = round(self._lease / 3 * (0.9 + 0.1 * self._chance()))
            pause = RETRY_BACKOFF.delay(failures, self._chance()) if failures else third
            await self._clock.sleep(min(pause, third))

    async def _renew(self) -> None:
        held = self._kept.held()
        for start in range(0, len(held), limits.ITEMS):
            part = held[start : start + limits.ITEMS]
            sent = self._clock.steady()
            answers = await self._store.jobs.renew([attempt.lease for attempt in part], self._lease)
            for attempt, answer in zip(part, answers, strict=True):
                self._on_renewed(attempt, answer, sent)

    def _on_renewed(self, attempt: Attempt, answer: Renewed, sent: int) -> None:
        if answer is Renewed.LOST:
            self._kept.ask_to_stop(attempt, Cause.LOST)
        elif answer is not Renewed.BUSY:
            attempt.valid_until = sent + self._lease
            if answer is Renewed.CANCELLING:
                self._kept.ask_to_stop(attempt, Cause.CANCEL)

    async def relieve(self) -> None:
        """Settle what has ended and hand back what has not begun, for a loop that does not answer.

        The loop will settle once more what has ended; the store answers that it is a repeat.
        """
        try:
            await self._store.jobs.note(self._kept.notes())
            for settlement in self._kept.unsettled():
                await self._store.jobs.exchange([settlement])
            self._taken += [attempt for attempt in self._kept.take_unstarted() if attempt.try_end()]
            await self._give_back()
        except Exception as error:  # noqa: BLE001 - it is tried again
            self._telemetry.emit(EventName.EXCHANGE_FAILED, error=error, count=1)

    async def _give_back(self) -> None:
        while part := self._taken[: limits.ITEMS]:
            back = [Settlement(attempt.lease, Again(charged=False)) for attempt in part]
            verdicts = (await self._store.jobs.exchange(back)).verdicts
            del self._taken[: len(part)]
            for attempt, verdict in zip(part, verdicts, strict=True):
                name = EventName.LEASE_LOST if verdict is Verdict.LOST else EventName.HANDED_BACK
                self._telemetry.emit(name, lease=attempt.lease)
            self._kept.returned(part)

    async def _watch(self) -> None:
        """Stop what could not be renewed, also while a renewal hangs. One that is late once may just have woken up."""
        late: set[Attempt] = set()
        while True:
            await self._clock.sleep(self._margin // 4)
            now = self._clock.steady()
            before, late = late, {attempt for attempt in self._kept.held() if now > attempt.valid_until - self._margin}
            for attempt in before & late:
                self._kept.ask_to_stop(attempt, Cause.LAPSED)

    async def _goodbye(self) -> None:
        await first(
            self._say_goodbye(),
            self._clock.sleep(self._at_most(SLOW_STORE_GOODBYE_US if self._answered else GOODBYE_US)),
        )
        await first(self._store.close(), self._clock.sleep(self._at_most(CLOSE_STORE_US)))

    def _at_most(self, duration: int) -> int:
        """This long, or until the worker should be gone; a little in any case."""
        until = self._kept.goodbye_until
        return duration if until is None else min(duration, max(GOODBYE_US, until - self._clock.steady()))

    async def _say_goodbye(self) -> None:
        with suppress(StoreError):  # its last beat will run out by itself
            await self._store.fleet.beat(self._worker(), 0)
