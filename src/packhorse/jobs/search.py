"""Find jobs by filters as users write them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from packhorse.errors import InvalidOption
from packhorse.jobs.job import Job
from packhorse.model import limits
from packhorse.model.death import Death
from packhorse.model.job import State, StoredJob
from packhorse.model.page import Filter, Page
from packhorse.model.reason import DeadReason, WaitReason

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

PAGE_SIZE = 500
_REASONS: dict[str, WaitReason | DeadReason] = {reason.value: reason for reason in (*WaitReason, *DeadReason)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Filters of jobs. ``header`` is a name and a value, ``error`` a part of the type or message of a failure.

    ``group`` is the fingerprint of dead jobs.
    """

    queue: str | None = None
    task: str | None = None
    state: str | None = None
    reason: str | None = None
    key: str | None = None
    tenant: str | None = None
    header: tuple[str, Any] | None = None
    error: str | None = None
    group: str | None = None
    enqueued_after: datetime | None = None

    @property
    def filter(self) -> Filter:
        """The part of the filters that the store applies; a wrong value is refused."""
        state, reason, after = self.state, self.reason, self.enqueued_after
        if state is not None and state not in list(State):
            raise InvalidOption("state", state, f"give one of {', '.join(State)}")
        if reason is not None and reason not in _REASONS:
            raise InvalidOption("reason", reason, f"give one of {', '.join(_REASONS)}")
        if after is not None and after.tzinfo is None:
            raise InvalidOption("enqueued_after", after, "give a datetime that has a time zone")
        return Filter(
            queue=self.queue,
            task=self.task,
            state=None if state is None else State(state),
            reason=None if reason is None else _REASONS[reason],
            lane=self.key,
            tenant=self.tenant,
            enqueued_since=None
            if after is None
            else min(max(0, round(after.timestamp() * 1_000_000)), limits.MAX_TIME_US),
        )

    async def page(self, client: "Client", limit: int, cursor: str | None, *, bodies: bool = True) -> Page[Job]:
        """Find a page of jobs."""
        page = await (await client.store()).jobs.find(self.filter, limit=limit, cursor=cursor, bodies=bodies)
        found = [Job(stored) for stored in page.items]
        return Page(tuple(job for job in found if self.fits(job)), page.cursor)

    def jobs(self, client: "Client") -> AsyncIterator[Job]:
        """Find all jobs, page by page; a wrong filter is refused at once."""
        _ = self.filter
        return self._jobs(client)

    async def _jobs(self, client: "Client") -> AsyncIterator[Job]:
        cursor: str | None = None
        while True:
            page = await self.page(client, PAGE_SIZE, cursor)
            for job in page.items:
                yield job
            if (cursor := page.cursor) is None:
                return

    @property
    def sifted(self) -> bool:
        """Whether some of it is looked at only here: of a page of the store few jobs may be left."""
        return (self.header, self.error, self.group) != (None, None, None)

    def fits(self, job: Job) -> bool:
        """Whether a job that the store found fits the rest."""
        if self.header is not None and job.headers.get(self.header[0]) != self.header[1]:
            return False
        if self.group is not None and not _in_group(job.stored, self.group):
            return False
        words = self.error
        return words is None or any(words in f"{failure.type}: {failure.message}" for failure in job.failures)


def _in_group(job: StoredJob, fingerprint: str) -> bool:
    return job.state is State.DEAD and Death(job, job.since).fingerprint == fingerprint
