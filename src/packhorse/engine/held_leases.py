"""The leases that a worker holds, each until the store has taken its settlement."""

from packhorse.engine.attempt import Attempt
from packhorse.engine.settlement_queue import SettlementQueue
from packhorse.model.ids import JobId
from packhorse.model.lease import Settlement
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName


class HeldLeases:
    """AttemptRunner by the ids of their jobs. ``suspects`` are those of jobs lost before whose start is not recorded."""

    def __init__(self, queue: SettlementQueue, telemetry: Telemetry) -> None:
        self.attempts: dict[JobId, Attempt] = {}
        self.suspects: dict[Attempt, None] = {}
        self._queue, self._telemetry = queue, telemetry

    def settle(self, attempt: Attempt, settlement: Settlement | None) -> None:
        """Queue the end of an attempt, by whoever has the right to settle it; None: its lease is lost."""
        if settlement is None:
            self._telemetry.emit(EventName.LEASE_LOST, lease=attempt.lease)
            self.release(attempt)
            self._queue.wake()
        else:
            self._queue.put(attempt, settlement)

    def release(self, attempt: Attempt) -> None:
        """Forget the lease of an attempt that has its verdict, or needs none."""
        if attempt.lease.lost:
            self.suspects.pop(attempt, None)
        if self.attempts.get(attempt.lease.id) is attempt:
            del self.attempts[attempt.lease.id]
