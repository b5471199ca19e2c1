"""Rules of alerts, as users write them: checked when they are made."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.duration import Duration, micros

if TYPE_CHECKING:
    from packhorse.alerts.targets import Target

Severity = Literal["info", "warning", "error", "critical"]

READY_MAX, DEAD_MAX = 1000, 100
MAX_COUNT = 1_000_000_000
MAX_RULE_NAME = 280  # a kind, and the name of a queue


class RuleKind(StrEnum):
    """What a rule looks at. The value is the first word of the rule's name."""

    ANY_DEAD = "any_dead"
    BACKLOG = "backlog"
    DEAD_LETTERS = "dead_letters"
    OLDEST = "oldest"
    MISSED = "missed"
    NO_WORKER = "no_worker"
    STUCK = "stuck"
    HEARTBEAT = "heartbeat"  # no rule of users: the calls of an outside monitor are declared and evaluated like one


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule as it is stored. Times are microseconds; ``kind`` may be one of a newer release."""

    name: str
    kind: str
    severity: Severity
    queue: str | None = None
    schedule: str | None = None
    above: int = 0
    for_us: int = 0
    remind_us: int | None = None
    to: tuple[str, ...] | None = None


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules have in common."""

    kind: ClassVar[RuleKind]
    usual_severity: ClassVar[Severity] = "error"

    for_: Duration = 0
    """How long it must hold before the alert fires."""
    severity: Severity | None = None
    """``info``, ``warning``, ``error`` or ``critical``; None for the usual one of the rule."""
    to: "Sequence[Target | str] | None" = None
    """Targets of this rule, or their names; None for those of the app."""
    remind: Duration | None = None
    """How often an alert that still fires is sent again; None for never."""
    name: str | None = None
    """Its name; None makes one from the kind and the queue or schedule."""

    def __post_init__(self) -> None:
        self.spec()

    def spec(self, to: Iterable[str] | None = None) -> RuleSpec:
        """Check the rule and give its stored form, with the names of its targets."""
        if self.severity is not None and self.severity not in get_args(Severity):
            raise InvalidOption("severity", self.severity, f"give one of {', '.join(get_args(Severity))}")
        if isinstance(self.to, str) or not (self.to is None or isinstance(self.to, Sequence)):
            raise InvalidOption("to", self.to, "give a list of targets or of their names")
        if self.name is not None:
            limits.name("alert rule", self.name, MAX_RULE_NAME)
        about = self.about()
        scope = about.get("queue") or about.get("schedule")
        return RuleSpec(
            name=self.name or (f"{self.kind}:{scope}" if scope else str(self.kind)),
            kind=str(self.kind),
            severity=self.severity or self.usual_severity,
            for_us=micros(self.for_, "for_"),
            remind_us=None if self.remind is None else micros(self.remind, "remind", low=limits.SECOND),
            to=None if to is None else tuple(to),
            **about,
        )

    def about(self) -> dict[str, Any]:
        """Check and give the fields that only this kind of rule has."""
        raise NotImplementedError


class _QueueRule(AlertRule, frozen=True):
    """A rule about one queue, or about every queue by itself."""

    queue: str | None = None
    """The queue; None for every queue of users."""

    def about(self) -> dict[str, Any]:
        """Check and give the queue."""
        return _queue(self.queue)


class AnyDead(_QueueRule, frozen=True):
    """A job has died. Deaths with the same fingerprint are one alert, resolved five minutes after the last of them."""

    kind: ClassVar[RuleKind] = RuleKind.ANY_DEAD


class Backlog(_QueueRule, frozen=True):
    """More jobs of a queue are ready than this."""

    kind: ClassVar[RuleKind] = RuleKind.BACKLOG
    usual_severity: ClassVar[Severity] = "warning"

    ready: int = READY_MAX
    """How many ready jobs are still well."""

    def about(self) -> dict[str, Any]:
        """Check and give the queue and the number."""
        limits.within("ready", self.ready, 0, MAX_COUNT)
        return {**_QueueRule.about(self), "above": self.ready}


class DeadLetters(_QueueRule, frozen=True):
    """More dead jobs of a queue are kept than this."""

    kind: ClassVar[RuleKind] = RuleKind.DEAD_LETTERS

    dead: int = DEAD_MAX
    """How many dead jobs are still well."""

    def about(self) -> dict[str, Any]:
        """Check and give the queue and the number."""
        limits.within("dead", self.dead, 0, MAX_COUNT)
        return {**_QueueRule.about(self), "above": self.dead}


class Oldest(_QueueRule, frozen=True):
    """The oldest ready job of a queue has been ready for longer than this."""

    kind: ClassVar[RuleKind] = RuleKind.OLDEST
    usual_severity: ClassVar[Severity] = "warning"

    age: Duration = "10m"
    """How long a job may be ready."""

    def about(self) -> dict[str, Any]:
        """Check and give the queue and the age."""
        return {**_QueueRule.about(self), "above": micros(self.age, "age", low=1)}


class Missed(AlertRule, frozen=True):
    """A run of a schedule failed, is late or was missed. Resolved when a later run, or the same one replayed, is done."""

    kind: ClassVar[RuleKind] = RuleKind.MISSED

    schedule: str | None = None
    """The schedule; None for every schedule."""

    def about(self) -> dict[str, Any]:
        """Check and give the schedule."""
        if self.schedule is not None:
            limits.name("schedule", self.schedule)
        return {"schedule": self.schedule}


class NoWorker(_QueueRule, frozen=True, kw_only=True):
    """A queue that is not paused has jobs to run, and no worker that serves it lives."""

    kind: ClassVar[RuleKind] = RuleKind.NO_WORKER
    usual_severity: ClassVar[Severity] = "critical"

    for_: Duration = "1m"
    """How long it must hold before the alert fires."""


class Stuck(AlertRule, frozen=True):
    """Jobs have waited for children, a signal or a decision for longer than this."""

    kind: ClassVar[RuleKind] = RuleKind.STUCK
    usual_severity: ClassVar[Severity] = "warning"

    age: Duration = "6h"
    """How long a job may wait."""
    queue: str | None = None
    """The queue; None for every queue of users."""

    def about(self) -> dict[str, Any]:
        """Check and give the queue and the age."""
        return {**_queue(self.queue), "above": micros(self.age, "age", low=1)}


def _queue(queue: str | None) -> dict[str, Any]:
    if queue is not None:
        limits.not_reserved("queue", queue)
    return {"queue": queue}


def usual_rules() -> tuple[AlertRule, ...]:
    """The rules of an app that names only targets."""
    return (AnyDead(), Backlog(), DeadLetters(), Missed())
