"""A job as users see it: its state, its moments, its failures."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.jobs.metadata import metadata_of
from packhorse.model import codec, job
from packhorse.model.clock import moment
from packhorse.model.ids import id_text
from packhorse.model.job import Failure, State
from packhorse.model.lease import Lease


class JobState(StrEnum):
    """The state of a job; ``unknown`` if the store has no such job, or no longer keeps it."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Progress(msgspec.Struct, frozen=True):
    """How far a running job is, from 0 to 100."""

    percent: float
    """From 0 to 100."""
    message: str = ""
    """The text that the job gave."""


class Job:
    """A job as it was when it was read."""

    def __init__(self, stored: job.StoredJob) -> None:
        self._stored = stored

    @property
    def id(self) -> str:
        """Its id."""
        return id_text(self._stored.id)

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._stored.task

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._stored.queue

    @property
    def state(self) -> JobState:
        """The state of the job."""
        return JobState(self._stored.state.value)

    @property
    def reason(self) -> str | None:
        """Why the job waits or is dead; None in other states."""
        return None if self._stored.reason is None else self._stored.reason.value

    @property
    def detail(self) -> str:
        """Details of the reason."""
        return self._stored.detail

    @property
    def attempt(self) -> int:
        """The number of attempts so far."""
        return self._stored.attempt

    @property
    def lost(self) -> int:
        """How often a worker was lost with it; from the second time on, only while it ran."""
        return self._stored.lost

    @property
    def priority(self) -> int:
        """Lower is sooner."""
        return self._stored.priority

    @property
    def key(self) -> str | None:
        """The key of its lane."""
        return self._stored.lane

    @property
    def tenant(self) -> str | None:
        """The tenant of the job."""
        return self._stored.tenant or self.headers.get("tenant")  # a lease has it in its headers only

    @property
    def user(self) -> str | None:
        """The user who requested the job."""
        return self.headers.get("user")

    @property
    def correlation_id(self) -> str | None:
        """The chain of work it belongs to."""
        return self.headers.get("correlation_id")

    @cached_property
    def chosen_id(self) -> str | None:
        """The text of the chosen id, if the job has one."""
        try:
            return metadata_of(self._stored.headers).id
        except UndecodablePayload:
            return None

    @cached_property
    def children(self) -> tuple[str, ...]:
        """The ids of the jobs whose results it takes, in order: the parts of a group, or the job before it in a chain."""
        try:
            results = metadata_of(self._stored.headers).results
        except UndecodablePayload:
            return ()
        return () if results is None else tuple(id_text(part) for part in results.parts(self._stored.id))

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        """The headers of the job; empty if they cannot be read, because one bad row must not hide the others.

        Without a correlation id of its own, a job has its own id as correlation id.
        """
        try:
            return {"correlation_id": self.id, **codec.decode(self._stored.headers, dict[str, Any])}
        except UndecodablePayload:
            return {}

    @cached_property
    def data(self) -> Any:
        """The arguments of the job, as plain data."""
        return codec.decode(self._stored.payload)

    @property
    def enqueued_at(self) -> datetime:
        """When it was stored."""
        return moment(self._stored.enqueued_at)

    @property
    def due_at(self) -> datetime | None:
        """When a scheduled job is due; None in any other state."""
        return self._since(State.SCHEDULED)

    @property
    def ready_at(self) -> datetime | None:
        """When a ready job became ready; None in any other state."""
        return self._since(State.READY)

    @property
    def started_at(self) -> datetime | None:
        """When a worker claimed a running job; None in any other state."""
        return self._since(State.RUNNING)

    @property
    def lease_expires_at(self) -> datetime | None:
        """When the lease of a running job expires unless it is renewed; None in any other state."""
        until = self._stored.until
        return None if until is None or self._stored.state is not State.RUNNING else moment(until)

    @property
    def waiting_since(self) -> datetime | None:
        """When a waiting job began to wait; None in any other state."""
        return self._since(State.WAITING)

    @property
    def ended_at(self) -> datetime | None:
        """When a done, dead or cancelled job ended; None in any other state."""
        return self._since(State.DONE, State.DEAD, State.CANCELLED)

    def _since(self, *states: State) -> datetime | None:
        return moment(self._stored.since) if self._stored.state in states else None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The last ten failures."""
        return self._stored.failures

    @property
    def cancelling(self) -> bool:
        """Whether it runs and was asked to stop."""
        return self._stored.cancelling

    @cached_property
    def progress(self) -> Progress | None:
        """Its last progress; None if it never reported any."""
        return None if self._stored.progress is None else progress(self._stored.progress)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self._stored.state.ended

    @property
    def stored(self) -> job.StoredJob:
        """The record itself."""
        return self._stored

    def __repr__(self) -> str:
        return f"<job {self.id} {self.task} {self.state}>"


class Child(NamedTuple):
    """A job whose result another one takes."""

    id: str
    """Its id, also before it is stored."""
    job: Job | None
    """The job without its arguments and result; None if it is not enqueued yet or no longer kept."""

    @property
    def state(self) -> JobState:
        """The state of the job; ``unknown`` if it is not enqueued yet or no longer kept."""
        return JobState.UNKNOWN if self.job is None else self.job.state


def progress(note: bytes) -> Progress:
    """Decode the last progress of a job."""
    return codec.decode(note, Progress)


def state_of(stored: job.StoredJob | None) -> JobState:
    """Give the state of a job that may not be stored."""
    return JobState.UNKNOWN if stored is None else JobState(stored.state.value)


def of_lease(lease: Lease) -> Job:
    """The job that an attempt runs."""
    return Job(
        job.StoredJob(
            id=lease.id,
            task=lease.task,
            queue=lease.queue,
            payload=lease.payload,
            headers=lease.headers,
            priority=lease.priority,
            enqueued_at=lease.enqueued_at,
            state=State.RUNNING,
            since=lease.claimed,
            until=lease.until,
            lane=lease.lane,
            parent=lease.parent,
            attempt=lease.attempt,
            lost=lease.lost,
        )
    )


def readable(lease: Lease) -> Job:
    """The job that an attempt runs, for code that looks at its data; UndecodablePayload if that is no JSON object."""
    found = of_lease(lease)
    if not isinstance(found.data, dict):
        raise UndecodablePayload("Stored text is no JSON object")
    return found
