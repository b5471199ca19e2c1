"""Options of jobs and of calls: as written, checked, and merged (call over task over queue over app over default)."""

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast

import msgspec

from packhorse.engine.policy import ATTEMPTS, BACKOFF, MOST_ATTEMPTS, Kinds, Policy
from packhorse.errors import InvalidOption, InvalidTime
from packhorse.model import job, limits
from packhorse.model.backoff import Backoff, checked
from packhorse.model.duration import Duration, micros
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, Until
from packhorse.model.trace_context import TRACE_HEADERS

P = ParamSpec("P")
R = TypeVar("R")

PRIORITY = 10
RESERVED = frozenset({"packhorse", "correlation_id", "tenant", "user", *TRACE_HEADERS})


class Keep(msgspec.Struct, frozen=True):
    """How many ended jobs of a queue are kept, and for how long; a job must meet both limits, None means no limit."""

    count: int | None = None
    """At most this many of a queue; None for any number."""
    age: Duration | None = None
    """At most this long after their ends; None for ever."""


class Unique(msgspec.Struct, frozen=True):
    """At most one job: within a time from the first one on, or until it has ``started`` or ``finished``.

    Without a key of its own, jobs of the same task with the same arguments are the same.
    """

    key: str | None = None
    """Jobs of a task with the same key are the same; None makes one from the arguments."""
    within: Duration | None = None
    """How long the first job keeps others out."""
    until: Until | Literal["started", "finished"] | None = None
    """What ends that instead of a time: ``started`` or ``finished``."""

    def __post_init__(self) -> None:
        if self.key is not None:
            limits.name("unique key", self.key, limits.VALUE)

    def stored(self, key: str) -> job.UniqueKey:
        """Give the store's form, under the key that was given or made."""
        if self.within is not None and self.until is not None:
            raise InvalidOption("unique", self.until, "give within= or until=, not both")
        if self.within is not None:
            return job.UniqueKey(key, Until.WINDOW, micros(self.within, "unique within", low=1))
        until = self.until or Until.FINISHED
        if until not in (Until.STARTED, Until.FINISHED):
            raise InvalidOption("unique until", until, 'give "started" or "finished", or within= for a time')
        return job.UniqueKey(key, Until(until))


class JobOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Checked options of an app, a queue, a task or a call; None leaves an option to the next level. Times are microseconds."""

    attempts: int | None = None
    backoff: Backoff | None = None
    timeout: int | None = None
    priority: int | None = None
    keep_done: job.Retention | None = None
    keep_dead: job.Retention | None = None

    def __bool__(self) -> bool:
        return self != NO_OPTIONS

    def policy(self, *, retry_on: Kinds = (), dead_on: Kinds = ()) -> Policy:
        """Give the rules for attempts, with defaults for all options that are None."""
        return Policy(
            attempts=ATTEMPTS if self.attempts is None else self.attempts,
            backoff=self.backoff or BACKOFF,
            timeout=self.timeout,
            retry_on=retry_on,
            dead_on=dead_on,
            keep_done=self.keep_done or KEEP_DONE,
            keep_dead=self.keep_dead or KEEP_DEAD,
        )


NO_OPTIONS = JobOptions()


class JobKeywords(TypedDict, total=False):
    """``JobOptions`` as users write them: keywords of an app, a queue, a task or a call."""

    attempts: int | None
    backoff: Backoff | None
    timeout: Duration | None
    priority: int | None
    keep_done: Keep | int | None
    keep_dead: Keep | int | None


def job_options(options: JobKeywords) -> JobOptions:
    """Check keywords; those of a call that are no options of jobs are left alone."""
    if (attempts := options.get("attempts")) is not None:
        limits.within("attempts", attempts, 1, MOST_ATTEMPTS)
    if (priority := options.get("priority")) is not None:
        limits.within("priority", priority, 0, limits.PRIORITY)
    backoff, timeout = options.get("backoff"), options.get("timeout")
    made = JobOptions(
        attempts=attempts,
        backoff=None if backoff is None else checked(backoff),
        timeout=None if timeout is None else micros(timeout, "timeout", low=1),
        priority=priority,
        keep_done=_retention("keep_done", options.get("keep_done")),
        keep_dead=_retention("keep_dead", options.get("keep_dead")),
    )
    return made or NO_OPTIONS


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse unknown names of options like a function does, and name the nearest known one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise TypeError(f"There is no option {name}=: {advice}")


def with_named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse unknown keywords by ``check_names``: its message names the nearest option, also before Python 3.13."""
    known = [name for name, given in inspect.signature(function).parameters.items() if given.kind is given.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        check_names(options, known)
        return function(*args, **options)

    return call


def merged(*levels: JobOptions) -> JobOptions:
    """Merge options; the first value that is not None wins. Returns the shared NO_OPTIONS when all are empty."""
    given = [level for level in levels if level is not NO_OPTIONS]
    if len(given) < 2:
        return given[0] if given else NO_OPTIONS
    values: dict[str, Any] = {}
    for level in given:
        for name in JobOptions.__struct_fields__:
            value = getattr(level, name)
            if value is not None:
                values.setdefault(name, value)
    return JobOptions(**values)


class CallOptions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Checked options of one call. Times are microseconds."""

    queue: str | None = None
    id: str | None = None
    delay: int = 0
    at: int = 0
    key: str | None = None
    tenant: str | None = None
    user: str | None = None
    correlation_id: str | None = None
    unique: Unique | None = None
    within: Any = None
    headers: Mapping[str, Any] = msgspec.field(default_factory=dict)
    job: JobOptions = NO_OPTIONS

    @cached_property
    def plain(self) -> bool:
        """Whether every option but the queue is at its default."""
        return self == CallOptions(queue=self.queue)

    def over(self, other: "CallOptions") -> "CallOptions":
        """Merge with options of a lower level: a value that is not at its default wins, headers are joined."""
        if self is NO_CALL_OPTIONS:
            return other
        if other is NO_CALL_OPTIONS:
            return self
        given = {name: value for name in _SIMPLE if (value := getattr(self, name)) != getattr(NO_CALL_OPTIONS, name)}
        given["job"] = merged(self.job, other.job)
        given["headers"] = {**other.headers, **self.headers}
        return msgspec.structs.replace(other, **given)


_SIMPLE = tuple(name for name in CallOptions.__struct_fields__ if name not in ("job", "headers"))
NO_CALL_OPTIONS = CallOptions()


class CallKeywords(JobKeywords, total=False):
    """``CallOptions`` as users write them: keywords of ``using`` and of calls by name."""

    queue: str | None
    id: str | None
    delay: Duration | None
    at: datetime | None
    key: str | None
    tenant: str | None
    user: str | None
    correlation_id: str | None
    unique: Unique | Duration | None
    within: object | None
    headers: Mapping[str, Any] | None


def call_options(**options: Unpack[CallKeywords]) -> CallOptions:
    """Check keywords of a call."""
    check_names(options, CallKeywords.__annotations__)
    queue, delay, at, unique = options.get("queue"), options.get("delay"), options.get("at"), options.get("unique")
    if queue is not None:
        limits.name("queue", queue)
    for name in ("id", "key", "tenant", "user", "correlation_id"):
        if (value := options.get(name)) is not None:
            limits.key(name.replace("_", " "), value)
    if delay is not None and at is not None:
        raise InvalidOption("at", at, "give delay= or at=, not both")
    made = CallOptions(
        queue=queue,
        id=options.get("id"),
        delay=0 if delay is None else micros(delay, "delay"),
        at=0 if at is None else _moment(at),
        key=options.get("key"),
        tenant=options.get("tenant"),
        user=options.get("user"),
        correlation_id=options.get("correlation_id"),
        unique=unique if unique is None or isinstance(unique, Unique) else Unique(within=unique),
        within=options.get("within"),
        headers=_headers(options.get("headers")),
        job=job_options(cast(JobKeywords, options)),
    )
    return NO_CALL_OPTIONS if made == NO_CALL_OPTIONS else made


class OptionLevels:
    """Options of an app and of its queues, below those of tasks and calls."""

    def __init__(self, app: JobOptions) -> None:
        self._app = app
        self.queues: dict[str, JobOptions] = {}
        self._lane_limits: dict[str, int] = {}

    def add_queue(self, queue: str, options: JobOptions, per_key: int | None) -> None:
        """Remember options of a queue; those given before stay where these are None."""
        self.queues[queue] = merged(options, self.of_queue(queue))
        if per_key is not None:
            limits.within("per_key", per_key, 1, limits.LANE_LIMIT)
            self._lane_limits[queue] = per_key

    def of_queue(self, queue: str) -> JobOptions:
        """Give the options of a queue alone."""
        return self.queues.get(queue, NO_OPTIONS)

    def lane_limit(self, queue: str) -> int:
        """How many jobs of one key run at once."""
        return self._lane_limits.get(queue, 1)

    def merged(self, queue: str, task: JobOptions = NO_OPTIONS) -> JobOptions:
        """Give the options of jobs of a task in a queue, of which no call changes any."""
        return merged(task, self.of_queue(queue), self._app)

    def priority(self, queue: str, task: JobOptions, call: JobOptions) -> int:
        """The priority is stored with the job; all other options are looked up when it runs."""
        for level in (call, task, self.queues.get(queue, NO_OPTIONS), self._app):
            if level is not NO_OPTIONS and level.priority is not None:
                return level.priority
        return PRIORITY


def _retention(what: str, given: Keep | int | None) -> job.Retention | None:
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        given = Keep(count=given)
    if isinstance(given, Keep):
        count = 1_000_000_000 if given.count is None else given.count
        return job.Retention(count, limits.MAX_DURATION_US if given.age is None else micros(given.age, f"{what} age"))
    raise InvalidOption(what, given, 'give a number of jobs, or Keep(count=100, age="24h")')


def _moment(at: object) -> int:
    """Give microseconds since 1970; moments before that are 0, which means now."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidTime("at", at, "give a datetime that has a time zone")
    moment = max(0, round(at.timestamp() * 1_000_000))
    if moment > limits.MAX_TIME_US:
        raise InvalidTime("at", at, "give a moment before the year 2100")
    return moment


def _headers(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Headers of the user's own, checked for reserved names."""
    given = dict(headers or {})
    for name in given:
        if not isinstance(name, str):
            raise InvalidOption("header", name, "names of headers are text")
        limits.name("header", name)
        if name in RESERVED:
            raise InvalidOption("header", name, f"this name is taken; use the option {name}= if there is one")
    return given
