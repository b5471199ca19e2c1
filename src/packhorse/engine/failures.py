"""What an attempt knows of its failure beyond the exception itself: fingerprint, duration, worker, release."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from packhorse.model.fingerprint import chosen_fingerprint, described
from packhorse.model.job import Failure
from packhorse.model.outcome import Again, Cancelled, Dead, Outcome

if TYPE_CHECKING:
    from packhorse.engine.attempt import Attempt

Fingerprint = str | Callable[[BaseException], str | None]

T = TypeVar("T", bound=Outcome)


class FailureDetails:
    """Adds the details to failures of one worker."""

    def __init__(self, worker: str = "", release: str | None = None) -> None:
        self._worker, self._release = worker, release or ""

    def add(self, outcome: T, attempt: "Attempt", error: BaseException, duration: int) -> T:
        """Complete the failure in an outcome, if it has one."""
        failure = failure_in(outcome)
        if failure is None:
            return outcome
        fingerprint, frame = described(attempt.lease.task, error, failure.type)
        own = attempt.entry.fingerprint
        return self.sign(
            _replaced(
                outcome,
                msgspec.structs.replace(
                    failure,
                    fingerprint=fingerprint if own is None else chosen(own, error) or fingerprint,
                    frame=frame,
                    duration=duration,
                ),
            )
        )

    def sign(self, outcome: T) -> T:
        """Name the worker and its release in the failure in an outcome, if it has one."""
        failure = failure_in(outcome)
        if failure is None:
            return outcome
        return _replaced(outcome, msgspec.structs.replace(failure, worker=self._worker, release=self._release))


def failure_in(outcome: Outcome) -> Failure | None:
    """Give the failure in an outcome."""
    return outcome.error if isinstance(outcome, Again | Dead | Cancelled) else None


def chosen(own: Fingerprint, error: BaseException) -> str | None:
    """Give the fingerprint that a task chose; None if its function gives none, or fails."""
    try:
        text = own if isinstance(own, str) else own(error)
        return chosen_fingerprint(text) if isinstance(text, str) and text else None
    except Exception:  # noqa: BLE001 - it is the user's code, and the failure must be stored
        return None


def _replaced(outcome: T, failure: Failure) -> T:
    return msgspec.structs.replace(outcome, error=failure)
