"""Looking for jobs, in the words people use."""

from datetime import datetime
from typing import Any

from packhorse.errors import InvalidOption
from packhorse.jobs.view import Job
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason, WaitReason

_REASONS: dict[str, WaitReason | DeadReason] = {reason.value: reason for reason in (*WaitReason, *DeadReason)}


def search(
    queue: str | None,
    task: str | None,
    state: str | None,
    reason: str | None,
    key: str | None,
    tenant: str | None,
    since: datetime | None,
) -> Filter:
    """What the store is asked for."""
    if state is not None and state not in list(State):
        raise InvalidOption("state", state, f"say one of {', '.join(State)}")
    if reason is not None and reason not in _REASONS:
        raise InvalidOption("reason", reason, f"say one of {', '.join(_REASONS)}")
    if since is not None and since.tzinfo is None:
        raise InvalidOption("since", since, "give a datetime that has a time zone")
    return Filter(
        queue=queue,
        task=task,
        state=None if state is None else State(state),
        reason=None if reason is None else _REASONS[reason],
        lane=key,
        tenant=tenant,
        born_since=None if since is None else round(since.timestamp() * 1_000_000),
    )


def fits(job: Job, header: tuple[str, Any] | None, error: str | None) -> bool:
    """Whether a job fits what a store does not look at."""
    if header is not None and job.headers.get(header[0]) != header[1]:
        return False
    return error is None or any(error in f"{failure.type}: {failure.message}" for failure in job.failures)
