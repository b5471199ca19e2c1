"""One event of a job, and the gap that stands for events that are not kept."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec


class JobEventName(StrEnum):
    """What happened to a job."""

    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    DONE = "done"
    AGAIN = "again"
    WAITING = "waiting"
    DEAD = "dead"
    CANCELLED = "cancelled"
    LOST = "lost"
    REPLAYED = "replayed"
    PROMOTED = "promoted"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job. What is not known is None: the job may be gone, or go on already."""

    name: JobEventName
    """What happened: ``"enqueued"``, ``"claimed"``, ``"done"``, ``"dead"`` and so on."""
    job_id: str
    """The id of the job."""
    at: datetime | None
    """When it happened, by the clock of the store."""
    position: str | None = None
    """Where ``app.events(after=…)`` goes on after this event; None in functions of ``@app.on``."""
    task: str | None = None
    """The name of the task."""
    queue: str | None = None
    """The queue of the job."""
    tenant: str | None = None
    """The tenant of the job."""
    correlation_id: str | None = None
    """The chain of work that the job belongs to."""
    attempt: int | None = None
    """Which attempt it was; the first is 1."""
    worker: str | None = None
    """The name of the worker that had the job."""
    reason: str | None = None
    """Why the job is dead or waits."""
    error_type: str | None = None
    """The class of the exception that ended the attempt."""
    error_message: str | None = None
    """Its text, without what looks like a secret."""
    duration: timedelta | None = None
    """How long the attempt ran."""
    result: Any = None
    """What a done job returned, as plain data; only with ``results=True``."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the log that cannot be read: they were removed, or one is damaged."""

    missed: int
    """How many entries. An entry has the events of one call to the store: of one job, or of several hundred."""
    first: str
    """The position before the first entry that comes after the gap."""
    damaged: bool = False
    """Whether it is an entry that cannot be decoded."""

    @property
    def position(self) -> str:
        """Where ``app.events(after=…)`` goes on after the gap."""
        return self.first
