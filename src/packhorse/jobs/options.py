"""What can be said about jobs, and who has the last word: call over task over queue over app over default."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from packhorse.engine.policy import ATTEMPTS, BACKOFF, MOST_ATTEMPTS, Kinds, Policy
from packhorse.errors import InvalidOption
from packhorse.model import caps, job
from packhorse.model.backoff import Backoff, checked
from packhorse.model.duration import Duration, micros
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, Until

PRIORITY = 10


class Keep(msgspec.Struct, frozen=True):
    """How many ended jobs of a queue stay, and for how long; both hold at once, what is None does not matter."""

    count: int | None = None
    age: Duration | None = None


class Unique(msgspec.Struct, frozen=True):
    """At most one job: within a time from the first one on, or until it has ``started`` or ``finished``.

    Without a key of its own, jobs of the same task with the same arguments are the same.
    """

    key: str | None = None
    within: Duration | None = None
    until: Until | Literal["started", "finished"] | None = None

    def __post_init__(self) -> None:
        if self.key is not None:
            caps.name("unique key", self.key, caps.VALUE)

    def stored(self, key: str) -> job.Unique:
        """What the store is told, under the key that was given or made."""
        if self.within is not None and self.until is not None:
            raise InvalidOption("unique", self.until, "say within= or until=, not both")
        if self.within is not None:
            return job.Unique(key, Until.WINDOW, micros(self.within, "unique within", low=1))
        until = self.until or Until.FINISHED
        if until not in (Until.STARTED, Until.FINISHED):
            raise InvalidOption("unique until", until, 'say "started" or "finished", or within= for a time')
        return job.Unique(key, Until(until))


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands on an app, a queue, a task or a call; None leaves it to the next one. Times are microseconds."""

    attempts: int | None = None
    backoff: Backoff | None = None
    timeout: int | None = None
    priority: int | None = None
    keep_done: job.Keep | None = None
    keep_dead: job.Keep | None = None

    def __bool__(self) -> bool:
        return self != NOTHING

    def policy(self, *, retry_on: Kinds = (), dead_on: Kinds = ()) -> Policy:
        """The rules for attempts, with defaults for what nobody said."""
        return Policy(
            attempts=ATTEMPTS if self.attempts is None else self.attempts,
            backoff=self.backoff or BACKOFF,
            timeout=self.timeout,
            retry_on=retry_on,
            dead_on=dead_on,
            keep_done=self.keep_done or KEEP_DONE,
            keep_dead=self.keep_dead or KEEP_DEAD,
        )


NOTHING = Options()


class Saying(TypedDict, total=False):
    """Options as people write them, on an app, a queue, a task or a call."""

    attempts: int | None
    backoff: Backoff | None
    timeout: Duration | None
    priority: int | None
    keep_done: Keep | int | None
    keep_dead: Keep | int | None


def options(
    *,
    attempts: int | None = None,
    backoff: Backoff | None = None,
    timeout: Duration | None = None,
    priority: int | None = None,
    keep_done: Keep | int | None = None,
    keep_dead: Keep | int | None = None,
) -> Options:
    """Options as people write them, checked."""
    if attempts is not None:
        caps.within("attempts", attempts, 1, MOST_ATTEMPTS)
    if priority is not None:
        caps.within("priority", priority, 0, caps.PRIORITY)
    length = None if timeout is None else micros(timeout, "timeout", low=1)
    said = Options(
        attempts=attempts,
        backoff=None if backoff is None else checked(backoff),
        timeout=length,
        priority=priority,
        keep_done=_kept("keep_done", keep_done),
        keep_dead=_kept("keep_dead", keep_dead),
    )
    return said or NOTHING


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse names that are no options, as a function does, and name the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise TypeError(f"There is no option {name}=: {advice}")


def over(*levels: Options) -> Options:
    """One set of options from several, the first that says something wins. Most say nothing: that one is the same for all."""
    saying = [level for level in levels if level is not NOTHING]
    if len(saying) < 2:
        return saying[0] if saying else NOTHING
    said: dict[str, Any] = {}
    for level in saying:
        for name in Options.__struct_fields__:
            value = getattr(level, name)
            if value is not None:
                said.setdefault(name, value)
    return Options(**said)


def _kept(what: str, given: Keep | int | None) -> job.Keep | None:
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        given = Keep(count=given)
    if isinstance(given, Keep):
        count = 1_000_000_000 if given.count is None else given.count
        return job.Keep(count, caps.LONGEST if given.age is None else micros(given.age, f"{what} age"))
    raise InvalidOption(what, given, 'give a number of jobs, or Keep(count=100, age="24h")')


def plain(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Headers of the user's own, checked for names that mean something already."""
    given = dict(headers or {})
    for name in given:
        if not isinstance(name, str):
            raise InvalidOption("header", name, "names of headers are text")
        caps.name("header", name)
        if name in RESERVED:
            raise InvalidOption("header", name, f"this name is taken; use the option {name}= if there is one")
    return given


RESERVED = frozenset({"packhorse", "correlation_id", "traceparent", "tracestate", "tenant", "user"})
