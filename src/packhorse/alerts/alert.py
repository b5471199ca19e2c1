"""An alert as targets get it, and what is stored of rules and of alerts that hold."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from packhorse.alerts.rules import RuleSpec, Severity
from packhorse.model.record import Record

KIND = "packhorse.alerts"
MAX_JOB_IDS = 10

Phase = Literal["fired", "reminder", "resolved", "test"]


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert as a target gets it; also the body of a webhook. Fields that do not apply are left out there."""

    type: str
    """``task_failure``, ``cron_failure``, ``backlog``, ``dead_letters``, ``oldest``, ``no_worker``, ``stuck`` or ``test``."""
    phase: Phase
    """``fired``, ``reminder``, ``resolved`` or ``test``."""
    severity: Severity
    """``info``, ``warning``, ``error`` or ``critical``."""
    message: str
    """What is wrong, in one sentence."""
    rule: str
    """The name of the rule."""
    fired_at: str
    """When it fired: ISO 8601, in UTC."""
    resolved_at: str | None = None
    """When it was resolved."""
    count: int | None = None
    """How many jobs it is about, or how many runs."""
    queue: str | None = None
    """The queue."""
    task: str | None = None
    """The task that failed."""
    fingerprint: str | None = None
    """What the failures have in common."""
    job_ids: tuple[str, ...] = ()
    """The first ten jobs."""
    error: str | None = None
    """The class and the text of the first failure, without secrets."""
    attempts: int | None = None
    """How often the first job was tried."""
    data: Any = None
    """The arguments of the first job, without secrets; left out if they are large."""
    schedule: str | None = None
    """The schedule."""
    cron: str | None = None
    """The rule of the schedule as text."""


class AlertFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule has found about one subject: a queue, a schedule, or failures of one fingerprint."""

    count: int = 0
    value: int = 0  # an age in microseconds
    word: str = ""  # what happened to a scheduled run: failed, late or missed
    queue: str | None = None
    task: str | None = None
    fingerprint: str | None = None
    job_ids: tuple[str, ...] = ()
    error: str | None = None
    attempts: int | None = None
    data: Any = None
    schedule: str | None = None
    cron: str | None = None
    moment: int = 0  # of the last death, or of the tick


class AlertState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An alert that holds: pending until it has fired. All times are moments of the store, 0 for not yet."""

    finding: AlertFinding
    since: int
    fired_at: int = 0
    notified_at: int = 0  # when targets were last sent it; not while it is silenced
    reminders: int = 0


class StoredRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rule"):
    """A declared rule as its record keeps it, with the alerts of its subjects that hold."""

    spec: RuleSpec
    to: tuple[str, ...]
    app: str
    since: int  # when it was declared: earlier deaths and events are not its business
    release: str | None = None
    disabled: bool = False
    cursor: int | None = None  # up to where events of schedules were read
    alerts: Mapping[str, AlertState] = {}

    def same(self, other: "StoredRule") -> bool:
        """Whether both were declared alike."""
        return (self.spec, self.to) == (other.spec, other.to)


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="group"):
    """An alert about deaths with one fingerprint, kept under the name of its rule and the fingerprint."""

    rule: str
    state: AlertState


_DECODER = msgspec.json.Decoder(StoredRule | StoredGroup)


def stored(record: Record) -> StoredRule | StoredGroup | None:
    """Read a record; None if it is of a newer release or damaged."""
    try:
        found: StoredRule | StoredGroup = _DECODER.decode(record.value)
        return found
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
