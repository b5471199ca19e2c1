"""A job: what is asked for at enqueue, and what is known of it afterwards."""

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import caps
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


class Unique(msgspec.Struct, frozen=True):
    """A key that at most one job may hold: for a window of time, until it starts, or until it ends."""

    key: str
    until: Until = Until.FINISHED
    window: int = 0

    def __post_init__(self) -> None:
        caps.key("unique key", self.key)
        if (self.until is Until.WINDOW) != (self.window > 0):
            raise InvalidOption("unique", self.until.value, "a window has a length, the other scopes have none")
        caps.span("unique window", self.window)


class Keep(msgspec.Struct, frozen=True):
    """How many ended jobs of a queue stay, and for how long (microseconds)."""

    count: int
    age: int

    def __post_init__(self) -> None:
        caps.within("keep count", self.count, 0, 1_000_000_000)
        caps.span("keep age", self.age)


KEEP_DONE = Keep(1000, 24 * 3600 * caps.SECOND)
KEEP_DEAD = Keep(5000, 7 * 24 * 3600 * caps.SECOND)
KEEP_WATCHED = 10 * caps.SECOND  # of a job that was watched when it ended: until those who wait for it have read it
REMEMBER = 7 * 24 * 3600 * caps.SECOND
LEASE = 30 * caps.SECOND
MAX_LOST = 3
EMPTY = b"{}"  # an object of JSON


class Pruned(NamedTuple):
    """How many ended jobs were removed, how much else that is over, and whether there may be more of either."""

    jobs: int
    others: int
    more: bool


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A wish to run a task. Due at the later of ``at`` and now plus ``delay``."""

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
    unique: Unique | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        _check_route(self.task, self.queue, self.priority)
        caps.text("payload", self.payload, caps.PAYLOAD)
        if self.headers != EMPTY:
            caps.text("headers", self.headers, caps.HEADERS)
        if self.delay or self.at:
            caps.span("delay", self.delay)
            caps.moment("at", self.at)
        if self.tenant is not None:
            caps.key("tenant", self.tenant)
        if self.lane is not None:
            caps.key("lane", self.lane)
            caps.within("lane limit", self.lane_limit, 1, caps.LANE_LIMIT)
        if self.parent is not None:
            check_id(self.parent)
        if self.children:
            caps.within("children", self.children, 0, caps.CHILDREN)


def _check_route(task: object, queue: object, priority: object) -> None:
    try:
        _check_known_route(task, queue, priority)
    except TypeError:  # what cannot be remembered is no text either
        _check_known_route.__wrapped__(task, queue, priority)


@lru_cache(maxsize=4096, typed=True)
def _check_known_route(task: object, queue: object, priority: object) -> None:
    """Refuse bad names; thousands of jobs have the same ones."""
    caps.name("task", task)
    caps.name("queue", queue)
    caps.within("priority", priority, 0, caps.PRIORITY)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What enqueue answers: the job that stands for the wish, and whether this call made it."""

    id: JobId
    created: bool


class Failure(msgspec.Struct, frozen=True):
    """What went wrong in one attempt; over-long text is cut, never refused."""

    type: str
    message: str = ""
    traceback: str = ""
    attempt: int = 0
    at: int = 0


class Job(msgspec.Struct, frozen=True, kw_only=True):
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
    born: int
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
    half = caps.TRACEBACK // 2
    trace = _plain(traceback)
    if len(trace.encode()) > caps.TRACEBACK:
        data = trace.encode()
        trace = _loose(data[: half - 8]) + "\n...\n" + _loose(data[-half + 8 :])
    return Failure(_loose(_plain(type).encode()[: caps.NAME]), _loose(_plain(message).encode()[: caps.MESSAGE]), trace)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\\0")


def _loose(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


_FAILURE = msgspec.json.Decoder(Failure)
_UNREADABLE = Failure("UndecodablePayload", "What is stored of this failure cannot be read")


def stored_failure(data: bytes, attempt: int, at: int) -> Failure:
    """Read the failure of an attempt as it was stored; one that cannot be read says so."""
    try:
        found = _FAILURE.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = _UNREADABLE
    return msgspec.structs.replace(found, attempt=attempt, at=at)
