"""A job that was enqueued, as its caller holds it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from packhorse.errors import JobCancelled, JobFailed, JobNotFound, StoreError
from packhorse.jobs.chunks import Chunk, Position
from packhorse.jobs.view import Job, Progress, Status, status
from packhorse.model.caps import SECOND
from packhorse.model.duration import Duration, micros
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import Job as Stored
from packhorse.model.job import State

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

STATUS_SECONDS = 0.5

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class JobHandle(Generic[R_co]):
    """One job. ``created`` is False if it was there already: the same chosen id, or a unique key that is taken."""

    __slots__ = ("__weakref__", "_desk", "_id", "_unpack", "created")

    def __init__(
        self, desk: "Desk", id: JobId, *, created: bool = False, unpack: Callable[[bytes | None], Any] | None = None
    ) -> None:
        self._desk, self._id, self.created = desk, id, created
        self._unpack = unpack or desk.plain_result

    @property
    def id(self) -> str:
        """The id of the job."""
        return id_text(self._id)

    async def info(self) -> Job:
        """All that is known of it; JobNotFound if it is not, or no longer, there."""
        [found] = await self._desk.get([self._id])
        if found is None:
            raise JobNotFound(self.id)
        return Job(found)

    async def status(self) -> Status:
        """Where it stands; ``unknown`` if it is not, or no longer, there."""
        [found] = await self._desk.get([self._id])
        return status(found)

    async def progress(self) -> Progress | None:
        """How far it is, if it ever said so."""
        return (await self.info()).progress

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for its end and answer what it returned.

        JobFailed if it died, JobCancelled if it was called off, JobNotFound if it is not there, TimeoutError if it takes
        longer than this; the job itself goes on.
        """
        limit = None if timeout is None else micros(timeout, "timeout")
        try:
            ended = await self._desk.ended(self._id, limit)
        except TimeoutError:
            if limit is None:
                raise
            where = await self._where()
            raise TimeoutError(f"The job {self.id} did not end within {limit / SECOND:g} s: {where}") from None
        if ended is None:
            raise JobNotFound(self.id)
        return cast(R_co, _value(ended, self._unpack))

    async def _where(self) -> str:
        """Where it stands, for an error that must be raised soon, also while the store does not answer."""
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                return f"it is {await self.status()} and goes on"
        except (TimeoutError, StoreError):
            return "it goes on; the store does not say where it stands"

    async def cancel(self) -> Status:
        """Call it off: at once if it is not running, else its worker is asked to stop it. Answers where it stands."""
        return await self._desk.cancel(self._id)

    async def promote(self) -> bool:
        """Make it ready now instead of later; False if it was not scheduled."""
        return await self._desk.promote(self._id)

    async def replay(self) -> bool:
        """Make it ready again, with its attempts at zero; False if it is not dead or cancelled."""
        return await self._desk.replay(self._id)

    def stream(self, after: Position | None = None) -> AsyncIterator[Chunk]:
        """The pieces that the job emits, as they come, until it has ended; ``after`` a piece read before, or all."""
        return self._desk.chunks(self._id, after or Position())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<handle of job {self.id}>"


def last_words(cancelled: Stored) -> str:
    """What the attempt said that ended as cancelled; earlier failures have nothing to do with it."""
    failures = cancelled.failures
    return failures[-1].message if failures and failures[-1].at == cancelled.since else ""


def _value(ended: Stored, unpack: Callable[[bytes | None], Any]) -> Any:
    if ended.state is State.DONE:
        return unpack(ended.result)
    if ended.state is State.CANCELLED:
        raise JobCancelled(id_text(ended.id), ended.task, last_words(ended))
    failure = ended.failures[-1] if ended.failures else None
    error = f"{failure.type}: {failure.message}".rstrip(": ") if failure else ""
    raise JobFailed(id_text(ended.id), ended.task, ended.reason, error, failure.traceback if failure else "")
