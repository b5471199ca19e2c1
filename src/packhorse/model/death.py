"""A death of a job: which job died, when and of what. One job can die several times, if it is replayed."""

import msgspec

from packhorse.model import limits
from packhorse.model.fingerprint import fingerprint
from packhorse.model.job import Failure, State, StoredJob
from packhorse.model.reason import DeadReason


class Death(msgspec.Struct, frozen=True):
    """A death, with its job as it is stored now."""

    job: StoredJob
    at: int

    @property
    def latest(self) -> bool:
        """Whether the job is still dead from it: it was neither replayed since, nor did it die again."""
        return self.job.state is State.DEAD and self.job.since == self.at

    @property
    def failure(self) -> Failure | None:
        """The failure of the last attempt; None if no worker was left to report one.

        Where so many attempts failed since then that it is no longer kept, the oldest kept one stands for it.
        """
        failures = self.job.failures
        if len(failures) == limits.FAILURES and failures[0].at > self.at:
            return failures[0]
        return next((failure for failure in reversed(failures) if failure.at == self.at), None)

    @property
    def reason(self) -> str:
        """Why the job died; for an earlier death, what is still known of it."""
        if self.latest and self.job.reason is not None:
            return self.job.reason.value
        return DeadReason.POISON.value if self.failure is None else DeadReason.EXHAUSTED.value

    @property
    def error_type(self) -> str:
        """The class of the exception, or the reason of a death without a failure."""
        return self.reason if self.failure is None else self.failure.type

    @property
    def message(self) -> str:
        """The text of the exception."""
        return "" if self.failure is None else self.failure.message

    @property
    def fingerprint(self) -> str:
        """What deaths with the same cause have in common, also if no worker has computed it."""
        failure = self.failure
        found = "" if failure is None else failure.fingerprint
        return found or fingerprint(self.job.task, self.error_type)
