"""Looking for jobs, in the words people use."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from packhorse.errors import InvalidOption
from packhorse.jobs.view import Job
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason, WaitReason

_REASONS: dict[str, WaitReason | DeadReason] = {reason.value: reason for reason in (*WaitReason, *DeadReason)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which jobs are looked for. ``header`` is a name and a value, ``error`` a part of the type or message of a failure."""

    queue: str | None = None
    task: str | None = None
    state: str | None = None
    reason: str | None = None
    key: str | None = None
    tenant: str | None = None
    header: tuple[str, Any] | None = None
    error: str | None = None
    since: datetime | None = None

    @property
    def filter(self) -> Filter:
        """What the store is asked for."""
        state, reason, since = self.state, self.reason, self.since
        if state is not None and state not in list(State):
            raise InvalidOption("state", state, f"say one of {', '.join(State)}")
        if reason is not None and reason not in _REASONS:
            raise InvalidOption("reason", reason, f"say one of {', '.join(_REASONS)}")
        if since is not None and since.tzinfo is None:
            raise InvalidOption("since", since, "give a datetime that has a time zone")
        return Filter(
            queue=self.queue,
            task=self.task,
            state=None if state is None else State(state),
            reason=None if reason is None else _REASONS[reason],
            lane=self.key,
            tenant=self.tenant,
            born_since=None if since is None else round(since.timestamp() * 1_000_000),
        )

    @property
    def sifted(self) -> bool:
        """Whether some of it is looked at only here: of a page of the store few jobs may be left."""
        return self.header is not None or self.error is not None

    def fits(self, job: Job) -> bool:
        """Whether a job that the store found fits the rest."""
        if self.header is not None and job.headers.get(self.header[0]) != self.header[1]:
            return False
        words = self.error
        return words is None or any(words in f"{failure.type}: {failure.message}" for failure in job.failures)
