"""A dead letter: all that is known of a job that died."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.errors import PackhorseError
from packhorse.jobs.job import Job
from packhorse.model.clock import moment
from packhorse.model.death import Death
from packhorse.model.job import Failure, StoredJob
from packhorse.model.traceback_text import trimmed

if TYPE_CHECKING:
    from packhorse.jobs.client import Client


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One of the last ten attempts of a dead job that failed."""

    number: int
    """Which attempt it was; the first is 1."""
    failed_at: datetime
    """When it failed."""
    duration: timedelta
    """How long it ran."""
    worker: str
    """The name of the worker that ran it."""
    release: str
    """The release of your code in that worker."""
    error_type: str
    """The class of the exception."""
    error_message: str
    """Its text."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that died, as it was when the letter was read."""

    job_id: str
    """The id of the job."""
    task: str
    """The name of its task."""
    queue: str
    """Its queue."""
    tenant: str | None
    """Its tenant."""
    arguments: dict[str, Any] | None
    """Its arguments as plain data; None if they cannot be read."""
    payload: bytes
    """Its arguments as they are stored."""
    headers: Mapping[str, Any]
    """Its headers."""
    correlation_id: str | None
    """The chain of work it belongs to."""
    reason: str
    """Why it died: ``exhausted``, ``final``, ``poison``, ``undecodable``."""
    error_type: str
    """The class of the last exception; for a death without one, the reason."""
    error_message: str
    """The text of the last exception."""
    traceback: str
    """The traceback of the last exception, whole."""
    attempt: int
    """How many attempts there were."""
    attempts: tuple[FailedAttempt, ...]
    """The last ten attempts that failed, the newest last."""
    enqueued_at: datetime
    """When the job was stored."""
    died_at: datetime
    """When it died."""
    fingerprint: str
    """What deaths with the same cause have in common."""

    @property
    def trimmed_traceback(self) -> str:
        """The traceback without the frames of installed packages, of Python and of Packhorse."""
        return trimmed(self.traceback)

    @property
    def first_failed_at(self) -> datetime | None:
        """When the first of the attempts failed; None if none was reported."""
        return self.attempts[0].failed_at if self.attempts else None

    @property
    def last_failed_at(self) -> datetime | None:
        """When the last of the attempts failed; None if none was reported."""
        return self.attempts[-1].failed_at if self.attempts else None


def letter_of(client: "Client", stored: StoredJob) -> DeadLetter:
    """Make the letter of a dead job."""
    job, death = Job(stored), Death(stored, stored.since)
    return DeadLetter(
        job_id=job.id,
        task=stored.task,
        queue=stored.queue,
        tenant=job.tenant,
        arguments=_arguments(client, stored),
        payload=stored.payload,
        headers=job.headers,
        correlation_id=job.correlation_id,
        reason=death.reason,
        error_type=death.error_type,
        error_message=death.message,
        traceback="" if death.failure is None else death.failure.traceback,
        attempt=stored.attempt,
        attempts=tuple(map(_attempt, stored.failures)),
        enqueued_at=job.enqueued_at,
        died_at=moment(stored.since),
        fingerprint=death.fingerprint,
    )


def _arguments(client: "Client", stored: StoredJob) -> dict[str, Any] | None:
    try:
        return client.builder.open_payload(stored, dict[str, Any])
    except PackhorseError:
        return None


def _attempt(failure: Failure) -> FailedAttempt:
    return FailedAttempt(
        number=failure.attempt,
        failed_at=moment(failure.at),
        duration=timedelta(microseconds=failure.duration),
        worker=failure.worker,
        release=failure.release,
        error_type=failure.type,
        error_message=failure.message,
    )
