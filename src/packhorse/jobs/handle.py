"""A job that was enqueued, as its caller holds it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from packhorse.errors import JobCancelled, JobFailed, JobNotFound, StoreError
from packhorse.jobs.chunks import Chunk, Position, chunks
from packhorse.jobs.job import Child, Job, JobState, Progress, state_of
from packhorse.model import codec
from packhorse.model.duration import Duration, micros
from packhorse.model.ids import JobId, id_text, parse_id
from packhorse.model.job import State, StoredJob
from packhorse.model.limits import ITEMS, SECOND

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

STATE_TIMEOUT_SECONDS = 0.5

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def unpack_plain(result: bytes | None) -> Any:
    """Decode a result whose type is not known here."""
    return None if result is None else codec.decode(result)


class JobHandle(Generic[R_co]):
    """One job. ``created`` is False if it was there already: the same chosen id, or a unique key that is taken."""

    __slots__ = ("__weakref__", "_client", "_id", "_unpack", "created")

    def __init__(
        self, client: "Client", id: JobId, *, created: bool = False, unpack: Callable[[bytes | None], Any] | None = None
    ) -> None:
        self._client, self._id, self.created = client, id, created
        self._unpack = unpack or unpack_plain

    @property
    def id(self) -> str:
        """The id of the job."""
        return id_text(self._id)

    async def info(self) -> Job:
        """Read the job; JobNotFound if the store has no such job, or no longer keeps it."""
        [found] = await self._client.get([self._id])
        if found is None:
            raise JobNotFound(self.id)
        return Job(found)

    async def state(self) -> JobState:
        """Read the state of the job; ``unknown`` if the store has no such job, or no longer keeps it."""
        [found] = await self._client.get([self._id], bodies=False)
        return state_of(found)

    async def children(self) -> AsyncIterator[Child]:
        """The jobs whose results the job takes, in order: the parts of a group of any size, or the job before it in a chain."""
        children = (await self.info()).children
        for begin in range(0, len(children), ITEMS):
            some = children[begin : begin + ITEMS]
            for child, stored in zip(some, await self._client.get([*map(parse_id, some)], bodies=False), strict=True):
                yield Child(child, None if stored is None else Job(stored))

    async def progress(self) -> Progress | None:
        """Its last progress; None if it never reported any."""
        return (await self.info()).progress

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end of the job and return its result.

        Raises JobFailed, JobCancelled, JobNotFound if the store has no such job, and TimeoutError if it takes
        longer than this; the job itself goes on.
        """
        limit = None if timeout is None else micros(timeout, "timeout")
        try:
            ended = await self._client.ended(self._id, limit)
        except TimeoutError:
            if limit is None:
                raise
            where = await self._state_text()
            raise TimeoutError(f"The job {self.id} did not end within {limit / SECOND:g} s: {where}") from None
        if ended is None:
            raise JobNotFound(self.id)
        return cast(R_co, _value(ended, self._unpack))

    async def _state_text(self) -> str:
        """Describe the state for an error that must be raised soon, also while the store does not answer."""
        try:
            async with asyncio.timeout(STATE_TIMEOUT_SECONDS):
                return f"it is {await self.state()} and goes on"
        except (TimeoutError, StoreError):
            return "it goes on; the store did not answer which state it is in"

    async def cancel(self) -> JobState:
        """Cancel the job, and return its state: at once if it is not running, else its worker is asked to stop it."""
        return await self._client.cancel(self._id)

    async def promote(self) -> bool:
        """Make a scheduled job ready now; False if it was not scheduled."""
        return await self._client.promote(self._id)

    async def replay(self) -> bool:
        """Make a dead or cancelled job ready again, with no attempt counted; False if it is neither."""
        return await self._client.replay(self._id)

    def stream(self, after: Position | None = None) -> AsyncIterator[Chunk]:
        """The pieces that the job emits, as they come, until it has ended; ``after`` a piece read before, or all."""
        return chunks(self._client, self._id, after or Position())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<handle of job {self.id}>"


def last_words(cancelled: StoredJob) -> str:
    """The text of the attempt that ended as cancelled; earlier failures do not count."""
    failures = cancelled.failures
    return failures[-1].message if failures and failures[-1].at == cancelled.since else ""


def _value(ended: StoredJob, unpack: Callable[[bytes | None], Any]) -> Any:
    if ended.state is State.DONE:
        return unpack(ended.result)
    if ended.state is State.CANCELLED:
        raise JobCancelled(id_text(ended.id), ended.task, last_words(ended))
    failure = ended.failures[-1] if ended.failures else None
    error = f"{failure.type}: {failure.message}".rstrip(": ") if failure else ""
    raise JobFailed(id_text(ended.id), ended.task, ended.reason, error, failure.traceback if failure else "")
