"""The context of an attempt: what user code can read and do in it."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar

from packhorse.engine.attempt import Attempt, current_attempt
from packhorse.errors import InvalidOption, NoTransactions
from packhorse.model import codec, limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import id_text
from packhorse.model.job import NewJob
from packhorse.model.record import CHUNKS, chunk_head, chunk_key

T = TypeVar("T")

CHUNKS_KEPT = 10_000
CHUNK_AGE_US = 24 * 3600 * limits.SECOND


class Enqueueable(Protocol):
    """What can be enqueued: a call or a plan."""

    def jobs(self) -> Sequence[NewJob]:
        """Build its jobs."""


class Context:
    """One attempt of one job, for the code that runs in it."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._chunks = attempt, 0

    # -- what it is

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return id_text(self._attempt.lease.id)

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._attempt.lease.task

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._attempt.lease.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._attempt.lease.attempt

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should stop: it timed out, was cancelled, lost its lease, or its worker shuts down."""
        return self._attempt.stop_cause is not None

    @property
    def fence(self) -> int:
        """A number that is higher with every later attempt, for systems that refuse lower ones."""
        return self._attempt.lease.fence

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        """The headers of the job. Without a correlation id of its own, the job has its own id as correlation id."""
        return {"correlation_id": self.job_id, **codec.decode(self._attempt.lease.headers, dict[str, Any])}

    @property
    def tenant(self) -> str | None:
        """The tenant of the job."""
        return self.headers.get("tenant")

    @property
    def user(self) -> str | None:
        """The user who requested the job."""
        return self.headers.get("user")

    @property
    def correlation_id(self) -> str:
        """The chain of work the job belongs to."""
        return str(self.headers["correlation_id"])

    @property
    def enqueued_at(self) -> datetime:
        """When the job was stored."""
        return datetime.fromtimestamp(self._attempt.lease.enqueued_at / limits.SECOND, UTC)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of this job, and different for every other job."""
        return self.job_id

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose lines have the id, task, queue and attempt of the job."""
        known = {"job_id": self.job_id, "task": self.task, "queue": self.queue, "attempt": self.attempt}
        return logging.LoggerAdapter(
            logging.getLogger("packhorse.job"), {**known, "correlation_id": self.correlation_id}
        )

    # -- what it can do

    @property
    def tx(self) -> Any:
        """The transaction that is committed when, and only if, this attempt succeeds: what is written in it stays or goes
        with the job. A ``Tx`` in an async handler, a ``SyncTx`` in a plain one; with a factory, what that made.
        """
        transaction = self._attempt.transaction
        if transaction is None:
            raise NoTransactions(f"set transaction=True where the task {self.task!r} is defined")
        return transaction.given

    def enqueue(self, *calls: Enqueueable | NewJob) -> None:
        """Enqueue calls and plans when, and only if, this attempt succeeds."""
        for call in calls:
            self._attempt.effects += [Enqueue(job) for job in ((call,) if isinstance(call, NewJob) else call.jobs())]

    def publish(self, stream: str, data: bytes, *, key: str | None = None) -> None:
        """Publish an event when, and only if, this attempt succeeds."""
        limits.not_reserved("stream", stream)
        self._attempt.effects.append(Publish(stream, data, key))

    def progress(self, percent: float, message: str = "") -> None:
        """Write the progress of this attempt, from 0 to 100; only the latest is kept."""
        if not 0 <= percent <= 100:
            raise InvalidOption("progress", percent, "give a number from 0 to 100")
        data = codec.encode({"percent": percent, "message": message})
        limits.text("progress", data, limits.PROGRESS)
        if self._attempt.write_progress is not None:
            self._attempt.write_progress(self._attempt, data)

    def track(self, items: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Iterate over items and write the progress after each; ``total`` is for iterables without a length."""
        count = total if total is not None else _length(items)
        for number, item in enumerate(items, 1):
            yield item
            if count:
                self.progress(min(100, round(100 * number / count, 1)), f"{number} of {count}")

    def emit(self, chunk: object) -> None:
        """Send a piece of the result to readers of the job's stream, now; with ``transaction=`` at its commit at the latest."""
        lease, number = self._attempt.lease, self._chunks
        job, expires = lease.id, lease.until + CHUNK_AGE_US
        pieces = [Put(CHUNKS, chunk_key(job, self.fence, number), codec.encode(chunk), expires=expires)]
        if not number:
            now = codec.encode({"fence": self.fence, "attempt": self.attempt})
            pieces.append(Put(CHUNKS, chunk_head(job), now, expires=expires))
        if number >= CHUNKS_KEPT:
            pieces.append(Put(CHUNKS, chunk_key(job, self.fence, number - CHUNKS_KEPT), None))
        self._attempt.emit(pieces)
        self._chunks += 1


def _length(items: Iterable[Any]) -> int | None:
    """Number of elements, or None if it is unknown: some have a length by their class only."""
    try:
        return len(items) if isinstance(items, Sized) else None
    except Exception:  # noqa: BLE001 - TypeError, as a rule
        return None


def context_of(attempt: Attempt) -> Context:
    """The context of an attempt, the same each time."""
    if attempt.context is None:
        attempt.context = Context(attempt)
    return attempt.context


def current() -> Context:
    """The attempt this code runs in; in a batch there are several, and none is current."""
    return context_of(current_attempt())
