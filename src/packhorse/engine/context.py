"""What user code can know and do about the attempt it runs in."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar

from packhorse.engine.deadlines import Deadline
from packhorse.engine.judge import Cause
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry
from packhorse.engine.tx import Own
from packhorse.errors import InvalidOption, NotInAJob, NoTransactions
from packhorse.model import caps, codec
from packhorse.model.effect import Effect, Enqueue, Publish, Put, bytes_of
from packhorse.model.ids import id_text
from packhorse.model.job import EMPTY, NewJob
from packhorse.model.lease import Lease
from packhorse.model.record import CHUNKS, chunk_head, chunk_key

T = TypeVar("T")

HELD = 100  # effects that are written together while an attempt goes on
HELD_BYTES = 1 << 20
CHUNKS_KEPT = 10_000
CHUNK_AGE = 24 * 3600 * caps.SECOND

_CURRENT: ContextVar["Context | None"] = ContextVar("packhorse_context")


class Enqueueable(Protocol):
    """What can be enqueued: a call, or a flow of calls."""

    def jobs(self) -> Sequence[NewJob]:
        """The jobs it is made of."""


class Context:
    """One attempt of one job, from its lease to its settlement.

    ``stopped`` says why the engine wants it to stop; ``deadline`` is the steady moment at which its time is up.
    Whoever ``ends`` it first, the attempt itself or the engine on its behalf, settles it.
    """

    transaction: Own | None = None
    payload: bytes | None = None  # once something had to be fetched for it
    stopped: Cause | None = None
    entered = refused = False
    begun = took = valid_until = step = _chunks = 0
    deadline: int | None = None
    timer: "Deadline | None" = None
    arm: Callable[[], None] | None = None
    note: "Callable[[Context, bytes], None] | None" = None
    hold: "Callable[[Context], None] | None" = None
    concluded: "Callable[[Context, BaseException | None], None] | None" = None
    riders: "tuple[Context, ...]" = ()
    recorded: "asyncio.Future[None] | None" = None  # of a job lost before: the store knows that it begins

    def __init__(self, lease: Lease, entry: Entry) -> None:
        self.lease = lease
        self.entry = entry
        self.policy, self._fault = (entry.policy, None) if lease.headers == EMPTY else _tuned(entry, lease)
        self.effects: list[Effect] = []
        self.fence = lease.fence  # a number that is higher with every later attempt, for systems that refuse lower ones
        self._ending = threading.Lock()

    # -- what it is

    @property
    def job(self) -> str:
        """The id of the job."""
        return id_text(self.lease.id)

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.lease.task

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.lease.queue

    @property
    def attempt(self) -> int:
        """Which try this is; the first is 1."""
        return self.lease.attempt

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should come to its end: timed out, called off, shutting down, or no longer ours."""
        return self.stopped is not None

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        """What travels with the job. A chain of work that nobody named is called like the job it began with."""
        return {"correlation_id": self.job, **codec.decode(self.lease.headers, dict[str, Any])}

    @property
    def tenant(self) -> str | None:
        """For whom the job is."""
        return self.headers.get("tenant")

    @property
    def user(self) -> str | None:
        """By whom the job was asked for."""
        return self.headers.get("user")

    @property
    def correlation_id(self) -> str:
        """The chain of work the job belongs to."""
        return str(self.headers["correlation_id"])

    @property
    def enqueued_at(self) -> datetime:
        """When the job was stored."""
        return datetime.fromtimestamp(self.lease.born / caps.SECOND, UTC)

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this job, and for no other job."""
        return self.job

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose lines say which job they are about."""
        known = {"job_id": self.job, "task": self.task, "queue": self.queue, "attempt": self.attempt}
        return logging.LoggerAdapter(
            logging.getLogger("packhorse.job"), {**known, "correlation_id": self.correlation_id}
        )

    # -- what it can do

    @property
    def tx(self) -> Any:
        """The transaction that is committed when, and only if, this attempt succeeds: what is written in it stays or goes
        with the job. A ``Tx`` in an async handler, a ``SyncTx`` in a plain one; with a factory, what that made.
        """
        if self.transaction is None:
            raise NoTransactions(f"say transaction=True where the task {self.task!r} is defined")
        return self.transaction.given

    def enqueue(self, *wishes: Enqueueable | NewJob) -> None:
        """Enqueue calls and flows when, and only if, this attempt succeeds."""
        for wish in wishes:
            self.effects += [Enqueue(job) for job in ((wish,) if isinstance(wish, NewJob) else wish.jobs())]

    def publish(self, stream: str, data: bytes, *, key: str | None = None) -> None:
        """Publish an event when, and only if, this attempt succeeds."""
        self.effects.append(Publish(stream, data, key))

    def progress(self, percent: float, message: str = "") -> None:
        """Tell how far this attempt is, from 0 to 100; only the latest is kept."""
        if not 0 <= percent <= 100:
            raise InvalidOption("progress", percent, "give a number from 0 to 100")
        data = codec.encode({"percent": percent, "message": message})
        caps.text("progress", data, caps.PROGRESS)
        if self.note is not None:
            self.note(self, data)

    def track(self, items: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Go through items and tell after each how far that is; ``total`` is for what does not know its length."""
        count = total if total is not None else len(items) if isinstance(items, Sized) else None
        for number, item in enumerate(items, 1):
            yield item
            if count:
                self.progress(min(100, round(100 * number / count, 1)), f"{number} of {count}")

    def emit(self, chunk: object) -> None:
        """Send a piece of the result to whoever reads the job's stream, now."""
        job, number, expires = self.lease.id, self._chunks, self.lease.until + CHUNK_AGE
        pieces = [Put(CHUNKS, chunk_key(job, self.fence, number), codec.encode(chunk), expires=expires)]
        if not number:
            now = codec.encode({"fence": self.fence, "attempt": self.attempt})
            pieces.append(Put(CHUNKS, chunk_head(job), now, expires=expires))
        if number >= CHUNKS_KEPT:
            pieces.append(Put(CHUNKS, chunk_key(job, self.fence, number - CHUNKS_KEPT), None))
        self._chunks += 1
        self.want(pieces)

    # -- what the engine does with it

    def want(self, effects: Iterable[Effect]) -> None:
        """Have effects written while the attempt goes on; from any thread."""
        vars(self).setdefault("_held", deque()).extend(effects)
        if self.hold is not None:
            self.hold(self)

    def conclude(self, error: BaseException | None) -> None:
        """Settle this attempt before those that run with it: it worked, or it failed with this error."""
        if self.concluded is not None:
            self.concluded(self, error)

    @property
    def together(self) -> "list[Context]":
        """This attempt and those that ride along with it."""
        return [self, *self.riders]

    def take_held(self) -> tuple[Effect, ...]:
        """What is to be written while the attempt goes on, a bounded part of it."""
        held: deque[Effect] | None = vars(self).get("_held")  # made when first wanted: few attempts do
        if not held:
            return ()
        self.step += 1
        taken = [held.popleft()]
        size = bytes_of(taken)
        while held and len(taken) < HELD and (size := size + bytes_of((held[0],))) <= HELD_BYTES:
            taken.append(held.popleft())
        return tuple(taken)

    def check(self) -> None:
        """Stop here if this attempt should come to its end, or should never have begun."""
        if self._fault is not None:
            raise self._fault
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


def _tuned(entry: Entry, lease: Lease) -> tuple[Policy, Exception | None]:
    """The policy of this job; headers that make no sense are its own failure, not that of who looks at them."""
    try:
        return entry.tune(entry.policy, lease.headers), None
    except Exception as error:  # noqa: BLE001 - headers may come from anywhere
        return entry.policy, error


def enter_several() -> None:
    """Run several attempts in the context of the caller: none of them is what ``current`` answers."""
    _CURRENT.set(None)


def current_or_none() -> Context | None:
    """The attempt this code runs in, if it runs in one."""
    return _CURRENT.get(None)


def current() -> Context:
    """The attempt this code runs in; in a batch there are several, and none is current."""
    try:
        ctx = _CURRENT.get()
    except LookupError:
        raise NotInAJob from None
    if ctx is None:
        raise NotInAJob("Several jobs run here together: ask the messages of the batch")
    return ctx
