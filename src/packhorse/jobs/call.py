"""One wish to run a task: what it is called with, and what is said about this one call."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack

import msgspec

from packhorse.errors import InvalidOption, InvalidTime
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import NOTHING, Options, Saying, Unique, check_names, options, over, plain
from packhorse.model import caps
from packhorse.model.duration import Duration, micros
from packhorse.model.ids import JobId
from packhorse.model.job import NewJob, Receipt

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Wish(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is said about one call. Times are microseconds."""

    queue: str | None = None
    id: str | None = None
    delay: int = 0
    at: int = 0
    key: str | None = None
    tenant: str | None = None
    user: str | None = None
    correlation: str | None = None
    unique: Unique | None = None
    within: Any = None
    headers: Mapping[str, Any] = msgspec.field(default_factory=dict)
    options: Options = NOTHING

    @cached_property
    def plain(self) -> bool:
        """Whether it names a queue at most."""
        return self == Wish(queue=self.queue)

    def over(self, other: "Wish") -> "Wish":
        """This wish where it says something, else the other. Most say nothing, and that one is the same for all."""
        if self is NO_WISH:
            return other
        if other is NO_WISH:
            return self
        said = {name: getattr(self, name) for name in WISHES if getattr(self, name) != getattr(NO_WISH, name)}
        said["options"] = over(self.options, other.options)
        said["headers"] = {**other.headers, **self.headers}
        return msgspec.structs.replace(other, **said)


class Said(Saying, total=False):
    """A wish as people write it: the options of ``wish``, for those who hand them on."""

    queue: str | None
    id: str | None
    delay: Duration | None
    at: datetime | None
    key: str | None
    tenant: str | None
    user: str | None
    correlation: str | None
    unique: Unique | Duration | None
    within: object | None
    headers: Mapping[str, Any] | None


WISHES = tuple(name for name in Wish.__struct_fields__ if name not in ("options", "headers"))
NO_WISH = Wish()


def wish(
    *,
    queue: str | None = None,
    id: str | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    key: str | None = None,
    tenant: str | None = None,
    user: str | None = None,
    correlation: str | None = None,
    unique: Unique | Duration | None = None,
    within: object | None = None,
    headers: Mapping[str, Any] | None = None,
    **said: Unpack[Saying],
) -> Wish:
    """A wish as people write it, checked."""
    check_names(said, Said.__annotations__)
    if queue is not None:
        caps.name("queue", queue)
    for what, value in (("id", id), ("key", key), ("tenant", tenant), ("user", user), ("correlation id", correlation)):
        if value is not None:
            caps.key(what, value)
    if delay is not None and at is not None:
        raise InvalidOption("at", at, "say delay= or at=, not both")
    if unique is not None and not isinstance(unique, Unique):
        unique = Unique(within=unique)
    made = Wish(
        queue=queue,
        id=id,
        delay=0 if delay is None else micros(delay, "delay"),
        at=0 if at is None else _moment(at),
        key=key,
        tenant=tenant,
        user=user,
        correlation=correlation,
        unique=unique,
        within=within,
        headers=plain(headers),
        options=options(**said),
    )
    return NO_WISH if made == NO_WISH else made


def _moment(at: object) -> int:
    """Microseconds since 1970; all before that is the past, and means now."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidTime("at", at, "give a datetime that has a time zone")
    moment = max(0, round(at.timestamp() * 1_000_000))
    if moment > caps.LATEST:
        raise InvalidTime("at", at, "give a moment before the year 2100")
    return moment


class Target(Protocol):
    """What a call is a call of."""

    @property
    def name(self) -> str:
        """The name that is stored and routed by."""

    @property
    def wish(self) -> Wish:
        """What is said about every call."""

    @property
    def options(self) -> Options:
        """What is said about every job of the task."""

    @property
    def desk(self) -> "Desk":
        """Where its calls become jobs."""

    def unpack_result(self, result: bytes | None) -> Any:
        """The value that a stored result means."""


class Call(Generic[R_co]):
    """A task with its arguments, checked and ready to be enqueued, chained or scheduled."""

    __slots__ = ("payload", "target", "wish")

    def __init__(self, target: Target, payload: bytes, wish: Wish = NO_WISH) -> None:
        self.target, self.payload, self.wish = target, payload, wish

    def using(self, **said: Unpack[Said]) -> "Call[R_co]":
        """The same call with more said about it."""
        return Call(self.target, self.payload, wish(**said).over(self.wish))

    def jobs(self) -> list[NewJob]:
        """The one job it is."""
        if self.wish.within is not None:
            why = "what is enqueued with the end of a job commits with that; leave within= out"
            raise InvalidOption("within", self.wish.within, why)
        return [self.job_within()]

    def job_within(self, id: JobId | None = None) -> NewJob:
        """The one job it is, for those who send it within the transaction it names."""
        return self.target.desk.job(self, id=id)

    def handle(self, receipts: Sequence[Receipt]) -> JobHandle[R_co]:
        """The handle of what came of it."""
        [receipt] = receipts
        return JobHandle(self.target.desk, receipt.id, created=receipt.created, unpack=self.target.unpack_result)

    def __repr__(self) -> str:
        return f"<call of {self.target.name}>"
