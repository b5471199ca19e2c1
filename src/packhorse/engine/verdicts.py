"""What the store made of settlements: release leases, report what happened, find the one that the store refuses."""

import asyncio
from collections.abc import Sequence
from typing import assert_never

from packhorse.engine.attempt import Attempt
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.held_leases import HeldLeases
from packhorse.engine.settlement_queue import PendingSettlement, SettlementQueue
from packhorse.errors import OutcomeUnknown, RecordConflict, StoreUnavailable
from packhorse.model.lease import Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, End, Held, Wait
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName


class Verdicts:
    """Handles verdicts in the order of their settlements."""

    def __init__(
        self, store: Store, held: HeldLeases, runner: AttemptRunner, queue: SettlementQueue, telemetry: Telemetry
    ) -> None:
        self._store, self._held, self._runner = store, held, runner
        self._queue, self._telemetry = queue, telemetry
        self._emit_errors: dict[Attempt, Exception] = {}  # of attempts whose emitted effects were refused

    def handle(self, batch: Sequence[PendingSettlement], verdicts: Sequence[Verdict]) -> list[Attempt]:
        """Release the leases of settled attempts, and answer the attempts that go on though their lease is lost."""
        lost: list[Attempt] = []
        wanted: dict[EventName, bool] = {}  # once a call, not once a job
        for ended, verdict in zip(batch, verdicts, strict=True):
            outcome = ended.settlement.outcome
            if isinstance(outcome, Held):
                if verdict is Verdict.LOST and ended.attempt is not None:
                    lost.append(ended.attempt)
                elif verdict is not Verdict.CONFLICT and ended.attempt is not None:
                    ended.attempt.held_step_written(outcome.step)
                if verdict is Verdict.CONFLICT:
                    self._failed(ended, RecordConflict())
                elif (recorded := _awaited(ended)) is not None:
                    recorded.set_result(None)
                continue
            if verdict is Verdict.CONFLICT:
                self._failed(ended, RecordConflict())
                continue
            if ended.attempt is not None:
                self._held.release(ended.attempt)
                if self._emit_errors:
                    self._emit_errors.pop(ended.attempt, None)
            name = EventName.LEASE_LOST if verdict is Verdict.LOST else _name(outcome)
            if name not in wanted:
                wanted[name] = self._telemetry.wants(name)
            if wanted[name]:
                self._emit(name, ended, outcome)
        return lost

    async def settle_in_parts(self, batch: Sequence[PendingSettlement]) -> list[Attempt]:
        """Settle a refused batch in ever smaller parts, so that one bad settlement harms no other; as ``handle``."""
        if not batch:
            return []
        batch = self.checked(batch)
        try:
            answer = await self._store.jobs.exchange([ended.settlement for ended in batch])
        except (StoreUnavailable, OutcomeUnknown):
            for ended in batch:
                self._queue.put(ended.attempt, ended.settlement)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about one of these
            if len(batch) == 1:
                self._failed(batch[0], error)
            else:
                half = len(batch) // 2
                return [*await self.settle_in_parts(batch[:half]), *await self.settle_in_parts(batch[half:])]
        else:
            return self.handle(batch, answer.verdicts)
        return []

    def raise_if_refused(self, attempt: Attempt) -> None:
        """Raise if emitted effects of an attempt were refused; from any thread."""
        if (error := self._emit_errors.get(attempt)) is not None:
            raise error

    def checked(self, batch: Sequence[PendingSettlement]) -> Sequence[PendingSettlement]:
        """The batch, with attempts that succeeded but whose emitted effects were refused turned into failures."""
        return [self._failed_if_refused(ended) for ended in batch] if self._emit_errors else batch

    def _failed_if_refused(self, ended: PendingSettlement) -> PendingSettlement:
        error = self._emit_errors.get(ended.attempt) if ended.attempt is not None else None
        if error is None or ended.attempt is None or not isinstance(ended.settlement.outcome, Done):
            return ended
        return PendingSettlement(self._runner.judged(ended.attempt, error) or ended.settlement, ended.attempt)

    def _failed(self, ended: PendingSettlement, error: Exception) -> None:
        """Fail an attempt whose settlement the store refused; if it refuses that too, release the lease."""
        attempt = ended.attempt
        self._telemetry.emit(EventName.SETTLEMENT_REFUSED, lease=ended.settlement.lease, error=error)
        if attempt is None:
            return
        if isinstance(ended.settlement.outcome, Held):
            if (recorded := _awaited(ended)) is not None:
                recorded.set_exception(error)
            else:
                self._emit_errors[attempt] = error
            return
        settlement = None if attempt.settlement_refused else self._runner.judged(attempt, error)
        attempt.settlement_refused = True
        if settlement is None:
            self._held.release(attempt)
        else:
            self._queue.put(attempt, settlement)

    def _emit(self, name: EventName, ended: PendingSettlement, outcome: End) -> None:
        lease = ended.settlement.lease
        if name is EventName.LEASE_LOST:
            self._telemetry.emit(name, lease=lease)
        else:
            took = ended.attempt.duration if ended.attempt is not None and ended.attempt.started_at else None
            self._telemetry.emit(name, lease=lease, duration=took, **_fields(outcome))


def _awaited(ended: PendingSettlement) -> "asyncio.Future[None] | None":
    """The future of an attempt that waits until its start is recorded."""
    recorded = None if ended.attempt is None else ended.attempt.start_recorded
    return None if recorded is None or recorded.done() else recorded


def _name(outcome: End) -> EventName:
    match outcome:
        case Done():
            return EventName.DONE
        case Again():
            back = not outcome.charged and outcome.error is None and not outcome.delay
            return EventName.HANDED_BACK if back else EventName.RETRYING
        case Wait():
            return EventName.WAITING
        case Dead():
            return EventName.DEAD
        case Cancelled():
            return EventName.CANCELLED
        case never:
            assert_never(never)


def _fields(outcome: End) -> dict[str, object]:
    match outcome:
        case Again(delay=delay, error=error):
            return {"delay": delay, "error": error}
        case Wait(reason=reason):
            return {"reason": reason}
        case Dead(reason=reason, error=error):
            return {"reason": reason, "error": error}
        case Cancelled(error=error):
            return {} if error is None else {"error": error}
        case Done():
            return {}
        case never:
            assert_never(never)
