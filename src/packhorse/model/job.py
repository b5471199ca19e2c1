"""A job: what is asked for at enqueue, and what is known of it afterwards."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, eq
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.ids import JobId, check_id, new_id
from packhorse.model.reason import DeadReason, WaitReason


class State(StrEnum):
    """Where a job stands; ``done``, ``dead`` and ``cancelled`` are the ends."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job by itself."""
        return self in _ENDS


_ENDS = frozenset((State.DONE, State.DEAD, State.CANCELLED))


class Until(StrEnum):
    """How long a unique key stays taken."""

    WINDOW = "window"
    STARTED = "started"
    FINISHED = "finished"


class UniqueKey(msgspec.Struct, frozen=True):
    """A key that at most one job may hold: for a window of time, until it starts, or until it ends."""

    key: str
    until: Until = Until.FINISHED
    window: int = 0

    def __post_init__(self) -> None:
        limits.key("unique key", self.key)
        if (self.until is Until.WINDOW) != (self.window > 0):
            raise InvalidOption("unique", self.until.value, "a window has a length, the other scopes have none")
        limits.span("unique window", self.window)


class Retention(msgspec.Struct, frozen=True):
    """How many ended jobs of a queue stay, and for how long (microseconds)."""

    count: int
    age: int

    def __post_init__(self) -> None:
        limits.within("keep count", self.count, 0, 1_000_000_000)
        limits.span("keep age", self.age)


KEEP_DONE = Retention(1000, 24 * 3600 * limits.SECOND)
KEEP_DEAD = Retention(5000, 7 * 24 * 3600 * limits.SECOND)
KEEP_WATCHED_US = (
    10 * limits.SECOND
)  # of a job that was watched when it ended: until those who wait for it have read it
REMEMBER_US = 7 * 24 * 3600 * limits.SECOND
LEASE_US = 30 * limits.SECOND
MAX_LOST = 3
EMPTY = b"{}"  # an object of JSON


class PrunedDead(NamedTuple):
    """How many dead jobs of a queue were removed, and when the newest of them died."""

    jobs: int
    newest: int


class Pruned(NamedTuple):
    """How many ended jobs were removed, how much else that is over, and whether there may be more of either.

    ``dead`` has the removed dead jobs by queue.
    """

    jobs: int
    others: int
    more: bool
    dead: Mapping[str, PrunedDead] = MappingProxyType({})


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request to run a task. Due at the later of ``at`` and now plus ``delay``."""

    task: str
    id: JobId = msgspec.field(default_factory=new_id)
    queue: str = "default"
    payload: bytes = EMPTY
    headers: bytes = EMPTY
    tenant: str | None = None
    priority: int = 10
    delay: int = 0
    at: int = 0
    lane: str | None = None
    lane_limit: int = 1
    parent: JobId | None = None
    children: int = 0
    unique: UniqueKey | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_route(self.task, self.queue, self.priority)
        payload = self.payload
        if type(payload) is not bytes or not payload.isascii() or b"\0" in payload or len(payload) > limits.PAYLOAD:
            limits.text("payload", payload, limits.PAYLOAD)  # most payloads: without a call
        if self.headers != EMPTY:
            limits.text("headers", self.headers, limits.HEADERS)
        if self.delay or self.at:
            limits.span("delay", self.delay)
            limits.moment("at", self.at)
        if self.tenant is not None:
            limits.key("tenant", self.tenant)
        if self.lane is not None:
            limits.key("lane", self.lane)
            limits.within("lane limit", self.lane_limit, 1, limits.LANE_LIMIT)
        if self.parent is not None:
            check_id(self.parent)
        if self.children:
            limits.within("children", self.children, 0, limits.CHILDREN)


def _check_route(task: object, queue: object, priority: object) -> None:
    try:
        _check_known_route(task, queue, priority)
    except TypeError:  # what cannot be remembered is no text either
        _check_known_route.__wrapped__(task, queue, priority)


@lru_cache(maxsize=4096, typed=True)
def _check_known_route(task: object, queue: object, priority: object) -> None:
    """Refuse bad names; thousands of jobs have the same ones."""
    limits.name("task", task)
    limits.name("queue", queue)
    limits.within("priority", priority, 0, limits.PRIORITY)


def sets_only(*names: str) -> Callable[[Sequence[NewJob]], bool]:
    """Make a test of whether jobs leave every field but these at its default; a field added later is never among these."""
    rest = [field for field in msgspec.structs.fields(NewJob) if field.name not in names]
    values, defaults = attrgetter(*(field.name for field in rest)), tuple(field.default for field in rest)

    def check(jobs: Sequence[NewJob]) -> bool:
        return all(map(eq, map(values, jobs), repeat(defaults)))  # without a call of our own per job

    return check


PLAIN_FIELDS = ("id", "task", "queue", "payload", "headers", "priority", "tenant")
all_plain = sets_only(*PLAIN_FIELDS)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What enqueue answers: the job for the request, and whether this call made it."""

    id: JobId
    created: bool


class Failure(msgspec.Struct, frozen=True):
    """What went wrong in one attempt; over-long text is cut, never refused."""

    type: str
    """The class of the exception; with its module unless it is a built-in one."""
    message: str = ""
    """Its text."""
    fingerprint: str = ""
    """What failures with the same cause have in common; empty if a program other than Packhorse wrote the failure."""
    frame: str = ""
    """The innermost function of your code in the traceback, as ``module.function``."""
    duration: int = 0
    """How long the attempt ran, in microseconds."""
    worker: str = ""
    """The name of the worker that ran the attempt."""
    release: str = ""
    """The release of your code in that worker, if the app was given one."""
    traceback: str = ""  # the stores read failures up to here where tracebacks are not wanted
    """Its traceback as text; empty if there is none."""
    attempt: int = 0
    """Which attempt it was; the first is 1."""
    at: int = 0
    """When it failed, in microseconds since 1970."""


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a stored job.

    ``since`` is the moment that belongs to the state: due, ready since, leased, waits since, ended. ``until`` is when the
    lease of a running job runs out.
    """

    id: JobId
    task: str
    queue: str
    payload: bytes
    headers: bytes
    priority: int
    enqueued_at: int
    state: State
    since: int
    tenant: str | None = None
    lane: str | None = None
    lane_limit: int = 1
    parent: JobId | None = None
    unique: str | None = None
    reason: WaitReason | DeadReason | None = None
    detail: str = ""
    attempt: int = 0
    lost: int = 0
    worker: bytes | None = None
    until: int | None = None
    cancelling: bool = False
    children: int = 0
    delivered: int = 0
    progress: bytes | None = None
    result: bytes | None = None
    failures: tuple[Failure, ...] = ()


def failure(type: str, message: str = "", traceback: str = "") -> Failure:
    """A failure whose texts fit their caps and can be stored anywhere; a long traceback loses its middle."""
    half = limits.TRACEBACK // 2
    trace = _plain(traceback)
    if len(trace.encode()) > limits.TRACEBACK:
        data = trace.encode()
        trace = _loose(data[: half - 8]) + "\n...\n" + _loose(data[-half + 8 :])
    return Failure(
        _loose(_plain(type).encode()[: limits.NAME]),
        _loose(_plain(message).encode()[: limits.MESSAGE]),
        traceback=trace,
    )


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\\0")


def _loose(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


_FAILURE = msgspec.json.Decoder(Failure)
_UNREADABLE = Failure("UndecodablePayload", "What is stored of this failure cannot be read")


def stored_failure(data: bytes, attempt: int, at: int, *, bodies: bool = True) -> Failure:
    """Read the failure of an attempt as it was stored, without bodies without its traceback; one that cannot be read says so."""
    try:
        found = _FAILURE.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = _UNREADABLE
    return msgspec.structs.replace(found, attempt=attempt, at=at, traceback=found.traceback if bodies else "")
