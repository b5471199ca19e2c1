"""Jobs that this worker cannot run: those of unknown tasks wait for workers that know them, unreadable ones are dead."""

from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import failure
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Dead, Outcome, Wait
from packhorse.model.reason import DeadReason, WaitReason

AVOID_US = 500_000  # in which others may take what this worker cannot run
MAX_REMEMBERED_JOBS = 10_000


class UnknownTasks:
    """Remembers which jobs it sent to wait. One that comes back was released by a worker that can run it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: dict[JobId, None] = {}
        self._avoid_until: dict[str, int] = {}

    def outcome(self, lease: Lease) -> Outcome:
        """Have a job wait; or, if it was sent to wait before, stand aside for a moment so that others get it.

        A job whose record cannot be opened is dead: no worker could begin it.
        """
        if lease.fault:
            return Dead(DeadReason.UNDECODABLE, failure("UndecodablePayload", lease.fault))
        if lease.id in self._sent:
            del self._sent[lease.id]
            self._avoid_until[lease.queue] = self._clock.steady() + AVOID_US
            return Again(charged=False)
        self._sent[lease.id] = None
        if len(self._sent) > MAX_REMEMBERED_JOBS:
            del self._sent[next(iter(self._sent))]
        return Wait(WaitReason.UNROUTABLE, detail=lease.task)

    def avoided_queues(self) -> list[str]:
        """The queues that are left to others for now."""
        if not self._avoid_until:
            return []
        now = self._clock.steady()
        self._avoid_until = {queue: until for queue, until in self._avoid_until.items() if until > now}
        return list(self._avoid_until)
