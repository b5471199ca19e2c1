"""What alerts say: the message of a phase, and the alert that targets get."""

from datetime import timedelta

import msgspec

from packhorse.alerts.alert import Alert, AlertFinding, AlertState, Phase
from packhorse.alerts.rules import RuleKind, RuleSpec
from packhorse.model.cron import EPOCH

_TYPES = {RuleKind.ANY_DEAD: "task_failure", RuleKind.MISSED: "cron_failure"}
_SHARED = frozenset(AlertFinding.__struct_fields__) & frozenset(Alert.__struct_fields__)


def alert_of(spec: RuleSpec, state: AlertState, phase: Phase, now: int) -> Alert:
    """Make the alert that targets get."""
    kind, finding = RuleKind(spec.kind), state.finding
    fields = {name: getattr(finding, name) for name in _SHARED}
    return Alert(
        **{**fields, "count": finding.count or None},
        type=_TYPES.get(kind, str(kind)),
        phase=phase,
        severity=spec.severity,
        message=message(spec, finding, phase),
        rule=spec.name,
        fired_at=when(state.fired_at),
        resolved_at=when(now) if phase == "resolved" else None,
    )


def message(spec: RuleSpec, finding: AlertFinding, phase: Phase) -> str:
    """Say in one sentence what is wrong, or that it no longer is."""
    if phase == "resolved":
        return _resolved(spec, finding)
    kind, queue = RuleKind(spec.kind), finding.queue
    text = {
        RuleKind.ANY_DEAD: f"Task {finding.task} failed after {_many(finding.attempts or 0, 'attempt')}",
        RuleKind.BACKLOG: f"Queue {queue} has {_many(finding.count, 'ready job')}, more than {spec.above:,}",
        RuleKind.DEAD_LETTERS: f"Queue {queue} has {_many(finding.count, 'dead job')}, more than {spec.above:,}",
        RuleKind.OLDEST: f"A job of queue {queue} has been ready for {_span(finding.value)}, more than {_span(spec.above)}",
        RuleKind.MISSED: f"Schedule {finding.schedule}: {_run(finding.word)}",
        RuleKind.NO_WORKER: f"Queue {queue} has jobs to run and no worker",
        RuleKind.STUCK: f"{_many(finding.count, 'job')} of queue {queue} waited for more than {_span(spec.above)}",
    }[kind]
    more = finding.count - 1
    grouped = kind in (RuleKind.ANY_DEAD, RuleKind.MISSED)
    return f"{text}, and {more:,} more" if grouped and more > 0 else text


def _resolved(spec: RuleSpec, finding: AlertFinding) -> str:
    queue = finding.queue
    return {
        RuleKind.ANY_DEAD: f"Task {finding.task}: {_many(finding.count, 'job')} died, none in the last five minutes",
        RuleKind.BACKLOG: f"Queue {queue} has no more than {_many(spec.above, 'ready job')} again",
        RuleKind.DEAD_LETTERS: f"Queue {queue} has no more than {_many(spec.above, 'dead job')} again",
        RuleKind.OLDEST: f"No job of queue {queue} has been ready for more than {_span(spec.above)} any more",
        RuleKind.MISSED: f"Schedule {finding.schedule} is well again after {_many(finding.count, 'bad run')}",
        RuleKind.NO_WORKER: f"Queue {queue} has a worker again, or nothing to run",
        RuleKind.STUCK: f"No job of queue {queue} has waited for more than {_span(spec.above)} any more",
    }[RuleKind(spec.kind)]


def when(moment: int) -> str:
    """Write a moment of the store as ISO 8601, in UTC."""
    return (EPOCH + timedelta(microseconds=moment)).isoformat()


def body(alert: Alert) -> bytes:
    """Write an alert as JSON, without fields that do not apply."""
    return msgspec.json.encode(alert)


def _run(word: str) -> str:
    return {"failed": "a run failed", "late": "a run is late"}.get(word, "a run was missed")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _span(duration: int) -> str:
    return str(timedelta(seconds=round(duration / 1_000_000)))
