"""Settlements on their way to the store."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from packhorse.engine.attempt import Attempt
from packhorse.engine.wakeup import Wakeup
from packhorse.model import limits
from packhorse.model.effect import Publish, bytes_of
from packhorse.model.ids import JobId
from packhorse.model.job import Failure
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Dead, Done, Held

DeadHook = Callable[[JobId, bytes], tuple[Publish, ...]]


def no_effects(_id: JobId, _headers: bytes) -> tuple[Publish, ...]:
    """Add no events to the end of a dead job."""
    return ()


class PendingSettlement(msgspec.Struct, frozen=True):
    """A settlement that the store has not answered, and the attempt it ends, if one could be made."""

    settlement: Settlement
    attempt: Attempt | None


class SettlementQueue:
    """Collects settlements, wakes the exchange loop, and gives them out in bounded batches, in order.

    ``on_dead`` gives the events that are published with the end of a dead job, by its id and headers.
    """

    def __init__(self, wakeup: Wakeup, on_dead: DeadHook = no_effects) -> None:
        self._wakeup, self._on_dead = wakeup, on_dead
        self._waiting: deque[PendingSettlement] = deque()
        self._emitting: deque[Attempt] = deque()
        self._work_expected = False

    def put(self, attempt: Attempt | None, settlement: Settlement) -> None:
        """Queue a settlement; on the worker's loop."""
        if self._emitting:
            self._queue_held_steps()
        if isinstance(settlement.outcome, Dead) and not settlement.effects:
            events = self._on_dead(settlement.lease.id, settlement.lease.headers)
            settlement = msgspec.structs.replace(settlement, effects=events) if events else settlement
        if not self._waiting:  # else the loop was woken before, and takes all
            self._wakeup.set()
        self._waiting.append(PendingSettlement(settlement, attempt))

    def record(self, attempt: Attempt) -> "asyncio.Future[None]":
        """Queue a held step that records the start of an attempt; the future is done when the store has answered."""
        attempt.held_steps += 1
        attempt.start_recorded = asyncio.get_running_loop().create_future()
        self.put(attempt, Settlement(attempt.lease, Held(attempt.held_steps)))
        return attempt.start_recorded

    def hold(self, attempt: Attempt) -> None:
        """Have the effects that an attempt emits written while it goes on; from any thread."""
        self._emitting.append(attempt)
        self._wakeup.set_threadsafe()

    def _queue_held_steps(self) -> None:
        """Queue what attempts have emitted, before their ends."""
        while self._emitting:
            attempt = self._emitting.popleft()
            while (step := attempt.next_held_step()) is not None:
                self._waiting.append(PendingSettlement(step, attempt))

    def wake(self) -> None:
        """Wake the exchange loop: slots or leases have changed."""
        self._wakeup.set()

    def wake_from_thread(self) -> None:
        """Wake the exchange loop from another thread."""
        self._wakeup.set_threadsafe()

    def expect_work(self) -> None:
        """Wake the exchange loop to claim from all queues: what was settled elsewhere may have made jobs ready."""
        self._work_expected = True
        self._wakeup.set()

    def take_work_expected(self) -> bool:
        """Whether ``expect_work`` was called since the last time."""
        expected, self._work_expected = self._work_expected, False
        return expected

    @property
    def backlog(self) -> int:
        """How many settlements wait for the store."""
        return len(self._waiting) + len(self._emitting)

    @property
    def waiting(self) -> list[Settlement]:
        """The settlements that wait for the store; from any thread."""
        return [ended.settlement for ended in self._waiting.copy()]

    def take(self, max_bytes: int) -> list[PendingSettlement]:
        """The next settlements for one exchange: as many as fit, and at least one."""
        self._queue_held_steps()
        batch: list[PendingSettlement] = []
        effects = size = 0
        while self._waiting and len(batch) < limits.ITEMS:
            settlement = self._waiting[0].settlement
            outcome = settlement.outcome
            if type(outcome) is Done and not settlement.effects:  # by far the most: no call for each
                size += len(outcome.result or b"")
            elif type(outcome) is Held and _committed(self._waiting[0]):
                self._waiting.popleft()
                continue
            else:
                effects += len(settlement.effects)
                size += _bytes_of(settlement)
            if batch and (effects > limits.EFFECTS_PER_CALL or size > max_bytes):
                break
            batch.append(self._waiting.popleft())
        return batch

    def put_back(self, batch: Sequence[PendingSettlement]) -> None:
        """Take settlements again that were not answered, before all others."""
        self._waiting.extendleft(reversed(batch))


def _committed(held: PendingSettlement) -> bool:
    """Whether a held step was written by the transaction of its attempt."""
    return held.attempt is not None and held.attempt.committed


def _bytes_of(settlement: Settlement) -> int:
    """How many bytes of results, failures and effects a settlement brings."""
    match settlement.outcome:
        case Done(result):
            size = len(result or b"")
        case Again(error=Failure() as error) | Dead(error=error):
            size = len(error.message) + len(error.traceback)
        case _:
            size = 0
    return size + bytes_of(settlement.effects)
