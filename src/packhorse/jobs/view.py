"""A job as people look at it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.jobs import envelope
from packhorse.model import codec, job
from packhorse.model.ids import id_text
from packhorse.model.job import Failure, State
from packhorse.model.lease import Lease


class Status(StrEnum):
    """Where a job stands; ``unknown`` is one that was never there, or is not kept any more."""

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
    message: str = ""


class Job:
    """All that is known of a job at the moment it was looked at."""

    def __init__(self, stored: job.Job) -> None:
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
        """The queue it stands in."""
        return self._stored.queue

    @property
    def status(self) -> Status:
        """Where it stands."""
        return Status(self._stored.state.value)

    @property
    def reason(self) -> str | None:
        """Why it waits, or why it died."""
        return None if self._stored.reason is None else self._stored.reason.value

    @property
    def detail(self) -> str:
        """A few words more about the reason."""
        return self._stored.detail

    @property
    def attempt(self) -> int:
        """How often it was tried."""
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
        """For whom it is."""
        return self._stored.tenant or self.headers.get("tenant")  # a lease has it in its headers only

    @property
    def user(self) -> str | None:
        """By whom it was asked for."""
        return self.headers.get("user")

    @property
    def correlation(self) -> str | None:
        """The chain of work it belongs to."""
        return self.headers.get("correlation_id")

    @cached_property
    def chosen_id(self) -> str | None:
        """The words its id was made from, if the caller chose them."""
        try:
            return envelope.own(self._stored.headers).id
        except UndecodablePayload:
            return None

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        """What travels with it; nothing, if that cannot be read: one bad row must not hide the others.

        A chain of work that nobody named is called like the job it began with.
        """
        try:
            return {"correlation_id": self.id, **codec.decode(self._stored.headers, dict[str, Any])}
        except UndecodablePayload:
            return {}

    @cached_property
    def data(self) -> Any:
        """What it was enqueued with, as plain data."""
        return codec.decode(self._stored.payload)

    @property
    def enqueued_at(self) -> datetime:
        """When it was stored."""
        return moment(self._stored.born)

    @property
    def since(self) -> datetime:
        """Since when it has its status; for a scheduled job when it is due, for a running one when a worker claimed it."""
        return moment(self._stored.since)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The last ten things that went wrong."""
        return self._stored.failures

    @property
    def cancelling(self) -> bool:
        """Whether it runs and was asked to stop."""
        return self._stored.cancelling

    @cached_property
    def progress(self) -> Progress | None:
        """How far it is, if it ever said so."""
        return None if self._stored.progress is None else progress(self._stored.progress)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self._stored.state.ended

    @property
    def stored(self) -> job.Job:
        """The record itself."""
        return self._stored

    def __repr__(self) -> str:
        return f"<job {self.id} {self.task} {self.status}>"


def moment(micros: int) -> datetime:
    """A moment of the store as people read it."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def progress(note: bytes) -> Progress:
    """What a running job last said of itself."""
    return codec.decode(note, Progress)


def status(stored: job.Job | None) -> Status:
    """Where a job stands that may not be there."""
    return Status.UNKNOWN if stored is None else Status(stored.state.value)


def of_lease(lease: Lease) -> Job:
    """The job that an attempt runs."""
    return Job(
        job.Job(
            id=lease.id,
            task=lease.task,
            queue=lease.queue,
            payload=lease.payload,
            headers=lease.headers,
            priority=lease.priority,
            born=lease.born,
            state=State.RUNNING,
            since=lease.claimed,
            until=lease.until,
            lane=lease.lane,
            parent=lease.parent,
            attempt=lease.attempt,
            lost=lease.lost,
        )
    )
