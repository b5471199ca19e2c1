"""Sentry: failures of jobs as events, traces of senders and attempts, and check-ins of schedules."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from packhorse.errors import MissingExtra
from packhorse.model import limits
from packhorse.model.cron import Cron
from packhorse.model.ids import id_text
from packhorse.model.job import Failure
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Cancelled, Dead, Done
from packhorse.model.rule import Rule
from packhorse.model.trace_context import text_headers
from packhorse.telemetry import semconv
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.integration import (
    AttemptFailure,
    Integration,
    JobRun,
    RuleOf,
    Sending,
    failure_in,
    shown_message,
)
from packhorse.telemetry.names import EventName
from packhorse.telemetry.redact import redacted

try:
    import sentry_sdk
    from sentry_sdk.crons import capture_checkin
    from sentry_sdk.utils import event_from_exception
except ImportError as missing:
    raise MissingExtra("Sentry", "sentry") from missing

if TYPE_CHECKING:
    from sentry_sdk._types import Event, Hint, MonitorConfig

ORIGIN: Final = "auto.queue.packhorse"
MAX_SLUG: Final = 50  # characters in the name of a monitor

_RETRY: Final = "packhorse.engine.signals.Retry"
_MINUTE_US: Final = 60 * limits.SECOND
_LOG: Final = logging.getLogger("packhorse")


class Sentry(Integration):
    """Sends to Sentry, if the program has called ``sentry_sdk.init``.

    Jobs that are dead are captured, with ``every_attempt`` each failed attempt as well; ``Retry``, ``Snooze`` and ``Cancel``
    never are, unless the last attempt ends with ``Retry``. With ``monitors``, each schedule is a cron monitor.
    """

    def __init__(self, *, every_attempt: bool = False, monitors: bool = True) -> None:
        self._every_attempt, self._monitors = every_attempt, monitors
        self._rule_of: RuleOf = _no_rule

    def listen(self, telemetry: Telemetry, rule_of: RuleOf) -> None:
        """Report runs that were missed, and drop log lines of deaths: those are captured as errors."""
        self._rule_of = rule_of
        sentry_sdk.get_global_scope().add_event_processor(_without_deaths_in_log)
        if self._monitors:
            telemetry.on(self._missed, EventName.RUN_MISSED)

    def carried(self) -> Mapping[str, str]:
        """The trace of the current scope."""
        if not _is_on():
            return {}
        found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
        return {name: value for name, value in found.items() if value}

    @contextmanager
    def sending(self, sending: Sending) -> Iterator[None]:
        """A span ``queue.publish`` around the call that stores jobs."""
        if not _is_on():
            yield
            return
        queue = sending.queue
        with sentry_sdk.start_span(op="queue.publish", name=queue or "several queues", origin=ORIGIN) as span:
            span.set_data(semconv.SYSTEM, semconv.PACKHORSE)
            if queue is not None:
                span.set_data(semconv.DESTINATION, queue)
            if len(sending.jobs) == 1:
                span.set_data(semconv.MESSAGE_ID, id_text(sending.jobs[0].id))
            else:
                span.set_data(semconv.BATCH_COUNT, len(sending.jobs))
            span.set_data(semconv.BODY_SIZE, sum(len(job.payload) for job in sending.jobs))
            yield

    @contextmanager
    def running(self, run: JobRun) -> Iterator[None]:
        """A scope and a transaction ``queue.process`` around an attempt, or around those of a batch."""
        if not _is_on():
            yield
            return
        first = run.leases[0]
        headers = text_headers(first.headers) if len(run.leases) == 1 else {}
        name = first.task if len(run.leases) == 1 else run.queue
        monitored = self._monitors and "schedule" in headers and "tick" in headers
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_tags(_tags(first))
            transaction = sentry_sdk.continue_trace(
                headers, op="queue.process", name=name, source="task", origin=ORIGIN
            )
            with sentry_sdk.start_transaction(transaction) as span:
                for key, value in _data(run).items():
                    span.set_data(key, value)
                if monitored:
                    self._check_in(headers["schedule"], first.id.hex(), "in_progress")
                yield
                span.set_status("ok" if run.failure is None else "internal_error")
        if monitored and (status := _status(run)) is not None:
            self._check_in(headers["schedule"], first.id.hex(), status, run.duration / limits.SECOND)

    @contextmanager
    def continued(self, headers: Mapping[str, str]) -> Iterator[None]:
        """The trace of the worker goes on in the child process."""
        if not _is_on():
            yield
            return
        with sentry_sdk.isolation_scope():
            sentry_sdk.continue_trace(dict(headers))
            yield

    def failed(self, failure: AttemptFailure) -> None:
        """Capture a failure that is final, or any if that is wanted."""
        known = failure_in(failure.outcome)
        if known is None or not _is_on() or not self._is_wanted(failure, known):
            return
        with sentry_sdk.new_scope() as scope:
            scope.set_tags(_tags(failure.lease))
            scope.set_context(semconv.PACKHORSE, _context(failure, known))
            if known.fingerprint:
                scope.fingerprint = [known.fingerprint]
            scope.add_event_processor(_redacted)
            event, hint = _event(failure.error, known)
            sentry_sdk.capture_event(event, hint=hint)

    def _is_wanted(self, failure: AttemptFailure, known: Failure) -> bool:
        if isinstance(failure.outcome, Dead):
            return True
        charged = isinstance(failure.outcome, Again) and failure.outcome.charged
        return self._every_attempt and charged and known.type != _RETRY

    # -- schedules

    def _check_in(self, schedule: str, id: str, status: str, duration: float | None = None) -> None:
        if _is_on():
            capture_checkin(_slug(schedule), id, status, duration, _monitor(self._rule_of(schedule)))

    def _missed(self, _name: EventName, fields: Fields) -> None:
        schedule, _, _ = str(fields["detail"]).rpartition(" ")
        job = fields.get("job")
        self._check_in(schedule, uuid4().hex if job is None else job.hex(), "missed")


def _is_on() -> bool:
    """Whether Sentry knows where to send."""
    client = sentry_sdk.get_client()
    return client.is_active() and bool(client.options.get("dsn"))


def _no_rule(_schedule: str) -> None:
    return None


def _tags(lease: Lease) -> dict[str, str]:
    tags = {"job_id": id_text(lease.id), "task": lease.task, "queue": lease.queue, "attempt": str(lease.attempt)}
    schedule = text_headers(lease.headers).get("schedule")
    return tags if schedule is None else {**tags, "schedule": schedule}


def _data(run: JobRun) -> dict[str, Any]:
    """What Sentry's page of queues reads."""
    data: dict[str, Any] = {semconv.SYSTEM: semconv.PACKHORSE, semconv.DESTINATION: run.queue}
    data[semconv.BODY_SIZE] = sum(len(lease.payload) for lease in run.leases)
    data[semconv.RECEIVE_LATENCY] = max(0, run.began - min(lease.enqueued_at for lease in run.leases)) / 1000
    if len(run.leases) > 1:
        return data | {semconv.BATCH_COUNT: len(run.leases)}
    [lease] = run.leases
    return data | {semconv.MESSAGE_ID: id_text(lease.id), semconv.RETRY_COUNT: lease.attempt - 1}


def _context(failure: AttemptFailure, known: Failure) -> dict[str, Any]:
    lease = failure.lease
    try:
        arguments = redacted(msgspec.json.decode(failure.payload))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        arguments = f"<{len(failure.payload)} bytes>"
    context = {
        "job_id": id_text(lease.id),
        "task": lease.task,
        "queue": lease.queue,
        "attempt": lease.attempt,
        "final": isinstance(failure.outcome, Dead),
        "correlation_id": text_headers(lease.headers).get("correlation_id", id_text(lease.id)),
        "worker": known.worker,
        "arguments": arguments,
    }
    return context if failure.error is not None else {**context, "traceback": _traceback(known)}


def _traceback(known: Failure) -> str:
    return redacted(known.traceback) if shown_message(known.type, " ") else ""


def _event(error: BaseException | None, known: Failure) -> "tuple[Event, Hint]":
    mechanism = {"type": semconv.PACKHORSE, "handled": False}
    if error is not None:
        options = sentry_sdk.get_client().options
        return event_from_exception(error, client_options=options, mechanism=mechanism)
    module, _, name = known.type.rpartition(".")
    value = {"type": name, "module": module or None, "value": known.message, "mechanism": mechanism}
    return {"level": "error", "exception": {"values": [value]}}, {}


def _redacted(event: "Event", _hint: "Hint") -> "Event":
    """Take secrets out of messages, variables and breadcrumbs of an event."""
    for value in event.get("exception", {}).get("values", ()):
        value["value"] = shown_message(value.get("type") or "", value.get("value") or "")
        for frame in (value.get("stacktrace") or {}).get("frames", ()):
            if str(frame.get("module")).startswith("packhorse."):
                frame["in_app"] = False
                frame.pop("vars", None)  # they hold the arguments without their names
            elif "vars" in frame:
                frame["vars"] = redacted(frame["vars"])
    crumbs: Any = event.get("breadcrumbs")
    if isinstance(crumbs, dict):
        for crumb in crumbs.get("values", ()):
            for part in ("message", "data"):
                if crumb.get(part):
                    crumb[part] = redacted(crumb[part])
    return event


def _without_deaths_in_log(event: "Event", hint: "Hint") -> "Event | None":
    record = hint.get("log_record")
    of_death = record is not None and record.name == _LOG.name
    return None if of_death and getattr(record, "event", None) == EventName.DEAD.value else event


def _slug(schedule: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", schedule.lower())[:MAX_SLUG].strip("-") or semconv.PACKHORSE


def _status(run: JobRun) -> str | None:
    """How a scheduled run ended; None if it goes on."""
    [settlement] = run.settlements
    match None if settlement is None else settlement.outcome:
        case Done():
            return "ok"
        case Dead() | Cancelled():
            return "error"
        case _:
            return None


def _monitor(rule: Rule | None) -> "MonitorConfig | None":
    """The rule of a schedule as Sentry writes it, where Sentry has a word for it."""
    if isinstance(rule, Cron):
        plain = len(rule.text.split()) == 5
        return {"schedule": {"type": "crontab", "value": rule.text}, "timezone": rule.zone} if plain else None
    if rule is None or rule.interval % _MINUTE_US:
        return None
    return {"schedule": {"type": "interval", "value": rule.interval // _MINUTE_US, "unit": "minute"}}
