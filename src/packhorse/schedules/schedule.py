"""A schedule as it is stored: when it fires, what it runs, and what happens when all does not go by the clock."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal, TypedDict, get_args

import msgspec

from packhorse.errors import InvalidSchedule
from packhorse.jobs.options import NO_OPTIONS, CallOptions, JobOptions, check_names
from packhorse.model import limits
from packhorse.model.cron import EPOCH, Cron, Fold, Gap
from packhorse.model.duration import Duration, micros
from packhorse.model.rule import Every, Rule, before, starting, upcoming, zoned

KIND = "packhorse.schedule"

CatchUp = Literal["skip", "latest", "all"]
Overlap = Literal["skip", "queue", "allow"]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a schedule, as its handler gets it: the logical time, whatever the clock says when it runs."""

    schedule: str
    """The name of the schedule."""
    at: datetime
    """The moment, in UTC."""
    previous: datetime | None = None
    """The last tick before it that had a run, or None."""
    cron: str
    """The rule as text."""
    zone: str = "UTC"
    """The name of its zone."""


class ScheduleTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule runs: a task by its name, with the options of the call. ``takes`` is the parameter that gets the tick."""

    task: str
    queue: str | None = None
    payload: str = "{}"
    takes: str | None = None
    key: str | None = None
    tenant: str | None = None
    user: str | None = None
    correlation_id: str | None = None
    headers: dict[str, Any] = {}
    job: JobOptions = NO_OPTIONS

    def call_options(self, **options: Any) -> CallOptions:
        """Give the options of one run."""
        mine = {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in ("task", "payload", "takes")
        }
        return CallOptions(**{**mine, **options, "headers": {**self.headers, **options.get("headers", {})}})


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule with what it runs. Times are UTC, lengths microseconds."""

    name: str
    """Its name."""
    rule: Rule
    """When it fires."""
    what: ScheduleTarget
    """The task it runs, and with what."""
    start: datetime | None = None
    """Before it nothing fires; None for no start."""
    end: datetime | None = None
    """After it nothing fires; None for no end."""
    jitter: int = 0
    """By how much a run may be later than its tick, at most."""
    catch_up: CatchUp = "latest"
    """Which missed ticks are made up for."""
    overlap: Overlap = "skip"
    """What happens at a tick while the run before it goes on."""
    expect_within: int | None = None
    """How long after its tick a run should have ended; None for any time."""
    release: str | None = None
    """The release that declared it."""
    source: str | None = None
    """The module that declared it; None if it was put at run time."""
    app: str | None = None
    """The app that declared it; None if it was put at run time."""
    paused: bool = False
    """Whether somebody paused it."""
    disabled: bool = False
    """Whether it is no longer declared."""
    last: datetime | None = None
    """The tick that fired last."""

    @property
    def zone(self) -> str:
        """The zone of its rule."""
        return zone_name(self.rule)

    def after(self, moment: datetime) -> datetime | None:
        """The first tick after a moment, if there is one between its start and its end."""
        if self.start is not None:
            moment = max(moment, self.start - timedelta(microseconds=1))
        tick = next(upcoming(self.rule, moment), None)
        return None if tick is None or (self.end is not None and tick > self.end) else tick

    def next(self, count: int, after: datetime) -> list[datetime]:
        """The next so many ticks."""
        begin = after if self.start is None else max(after, self.start - timedelta(microseconds=1))
        ticks = upcoming(self.rule, begin)
        return list(islice(takewhile(lambda tick: self.end is None or tick <= self.end, ticks), count))

    def before(self, moment: datetime) -> datetime | None:
        """The last tick before a moment, if there is one since its start."""
        tick = before(self.rule, moment)
        return None if tick is None or (self.start is not None and tick < self.start) else tick

    def tick(self, at: datetime, previous: datetime | None) -> Tick:
        """What the handler gets."""
        return Tick(schedule=self.name, at=at, previous=previous, cron=self.rule.text, zone=self.zone)

    def due(self, after: datetime) -> int:
        """When it is to be looked at next, as the store counts; 0 for never."""
        tick = None if self.paused or self.disabled else self.after(after)
        return 0 if tick is None else moment_of(tick)

    def same(self, other: "Schedule") -> bool:
        """Whether both were declared alike, whatever happened to them since."""
        plain = {"paused": False, "disabled": False, "last": None, "release": None}
        return msgspec.structs.replace(self, **plain) == msgspec.structs.replace(other, **plain)


class Policies(TypedDict, total=False):
    """Options of a schedule besides its rule. Runs do not overlap by default: a tick during a run is skipped, or queued
    with ``catch_up="all"``."""

    start: datetime | None
    end: datetime | None
    jitter: Duration
    catch_up: CatchUp
    overlap: Overlap
    gap: Gap
    fold: Fold
    expect_within: Duration | None


def checked(options: Policies) -> tuple[dict[str, Any], dict[str, str]]:
    """Check options, and split them: those of the schedule, and those of its rule if that is a cron rule."""
    check_names(options, Policies.__annotations__)
    return _checked(**options)


def _checked(
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    jitter: Duration = 0,
    catch_up: CatchUp = "latest",
    overlap: Overlap | None = None,
    gap: Gap = "shift",
    fold: Fold = "first",
    expect_within: Duration | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    if overlap is None:
        overlap = "queue" if catch_up == "all" else "skip"
    for what, word, words in (
        ("catch_up", catch_up, get_args(CatchUp)),
        ("overlap", overlap, get_args(Overlap)),
        ("gap", gap, get_args(Gap)),
        ("fold", fold, get_args(Fold)),
    ):
        if word not in words:
            raise InvalidSchedule(f"{what}={word!r}", f"it is one of {', '.join(words)}")
    start, end = None if start is None else starting(start), None if end is None else zoned("end", end)
    if start is not None and end is not None and end < start:
        raise InvalidSchedule(f"end={end}", "it is before the start")
    if catch_up == "all" and overlap == "skip":
        raise InvalidSchedule('overlap="skip"', 'with catch_up="all" all but one would be skipped: give queue or allow')
    within = None if expect_within is None else micros(expect_within)
    stored = {"jitter": micros(jitter), "catch_up": catch_up, "overlap": overlap, "expect_within": within}
    return {**stored, "start": start, "end": end}, {"gap": gap, "fold": fold}


def ruled(rule: Rule, by_clock: dict[str, str]) -> Rule:
    """The rule with its policies for nights when clocks are changed."""
    if isinstance(rule, Cron):
        return msgspec.structs.replace(rule, **by_clock)
    if isinstance(rule, Every):
        return rule
    raise InvalidSchedule(repr(rule), "give cron(…) or every(…)")


def names(name: str, rules: Sequence[Rule]) -> list[str]:
    """What the schedules of a handler are called: by its name, and by the rule as well if there are several."""
    if not rules:
        raise InvalidSchedule(name, "it has no rule: give cron(…) or every(…)")
    named = [name] if len(rules) == 1 else [f"{name} {rule.text}" for rule in rules]
    if len(set(named)) < len(named):
        named = [
            f"{one} {zone_name(rule)}" if named.count(one) > 1 else one for one, rule in zip(named, rules, strict=True)
        ]
    if len(set(named)) < len(named):
        raise InvalidSchedule(name, "it has the same rule twice")
    for one in named:
        limits.name("schedule", one)
    return named


def zone_name(rule: Rule) -> str:
    """The zone of a rule."""
    return rule.zone if isinstance(rule, Cron) else "UTC"


def moment_of(at: datetime) -> int:
    """A time as the store counts."""
    return (at - EPOCH) // timedelta(microseconds=1)


def time_of(moment: int) -> datetime:
    """A moment of the store as a time."""
    return EPOCH + timedelta(microseconds=moment)
