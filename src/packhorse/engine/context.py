"""What user code can know and do about the attempt it runs in."""

import asyncio
import threading
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packhorse.engine.deadlines import Deadline
from packhorse.engine.judge import Cause
from packhorse.engine.registry import Entry
from packhorse.errors import NotInAJob
from packhorse.model import caps, codec
from packhorse.model.effect import Effect, Enqueue, Publish
from packhorse.model.ids import id_text
from packhorse.model.job import NewJob
from packhorse.model.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CURRENT: ContextVar["Context"] = ContextVar("packhorse_context")


class Context:
    """One attempt of one job, from its lease to its settlement.

    ``stopped`` says why the engine wants it to stop; ``deadline`` is the steady moment at which its time is up.
    Whoever ``ends`` it first, the attempt itself or the engine on its behalf, settles it.
    """

    def __init__(self, lease: Lease, entry: Entry) -> None:
        self.lease = lease
        self.entry = entry
        self.effects: list[Effect] = []
        self.stopped: Cause | None = None
        self.begun = 0
        self.took = 0
        self.entered = False
        self.refused = False
        self.valid_until = 0
        self.deadline: int | None = None
        self.timer: Deadline | None = None
        self.note: Callable[[Context, bytes], None] | None = None
        self._ending = threading.Lock()

    @property
    def job(self) -> str:
        """The id of the job."""
        return id_text(self.lease.id)

    @property
    def attempt(self) -> int:
        """Which try this is; the first is 1."""
        return self.lease.attempt

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should come to its end: timed out, called off, shutting down, or no longer ours."""
        return self.stopped is not None

    @cached_property
    def headers(self) -> "Mapping[str, Any]":
        """What travels with the job."""
        return codec.decode(self.lease.headers, dict[str, Any])

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this job, and for no other job."""
        return self.job

    def enqueue(self, *jobs: NewJob) -> None:
        """Enqueue jobs when, and only if, this attempt succeeds."""
        self.effects += [Enqueue(job) for job in jobs]

    def publish(self, stream: str, data: bytes, *, key: str | None = None) -> None:
        """Publish an event when, and only if, this attempt succeeds."""
        self.effects.append(Publish(stream, data, key))

    def progress(self, value: object) -> None:
        """Tell how far this attempt is; only the latest is kept."""
        data = codec.encode(value)
        caps.text("progress", data, caps.PROGRESS)
        if self.note is not None:
            self.note(self, data)

    def check(self) -> None:
        """Stop here if this attempt should come to its end."""
        if self.stopped is not None:
            raise asyncio.CancelledError(self.stopped.value)

    def end(self) -> bool:
        """Take the right to settle this attempt; false if that was done before."""
        return self._ending.acquire(blocking=False)

    @property
    def ended(self) -> bool:
        """Whether somebody has taken the right to settle it."""
        return self._ending.locked()

    def enter(self) -> None:
        """Be what ``current`` answers, in the context of the caller."""
        self.entered = True
        _CURRENT.set(self)


def current() -> Context:
    """The attempt this code runs in."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise NotInAJob from None
