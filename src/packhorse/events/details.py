"""Adds to changes of the log what the store knows of their jobs. The log itself has ids only, which costs workers nothing."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from packhorse.engine.losses import Loss, WorkerNames
from packhorse.errors import UndecodablePayload
from packhorse.events.event import Gap, JobEvent, JobEventName
from packhorse.events.log import answered
from packhorse.events.loss_log import LossLog
from packhorse.events.page import LoggedChange
from packhorse.events.position import LogPosition
from packhorse.jobs.job import Job
from packhorse.model import codec, limits
from packhorse.model.clock import moment
from packhorse.model.ids import JobId, id_text, parse_id
from packhorse.model.job import Failure, State, StoredJob
from packhorse.stores.contract import Store
from packhorse.telemetry.redact import redacted

MAX_REMEMBERED: Final = 50_000
READ_RESULTS: Final = 20

_CHANGING: Final = frozenset(JobEventName) - {JobEventName.LOST, JobEventName.REPLAYED, JobEventName.PROMOTED}
_STATES: Final = {
    JobEventName.CLAIMED: State.RUNNING, JobEventName.DONE: State.DONE, JobEventName.WAITING: State.WAITING,
    JobEventName.DEAD: State.DEAD, JobEventName.CANCELLED: State.CANCELLED,
}  # fmt: skip


class KnownJob(NamedTuple):
    """What stays the same of a job."""

    task: str
    queue: str
    tenant: str | None
    correlation_id: str | None


class EventDetails:
    """Makes events of changes. Jobs that were seen are remembered, also when they are kept no more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._facts: OrderedDict[JobId, KnownJob] = OrderedDict()
        self._names = WorkerNames(store)
        self._losses = LossLog(store)

    async def events(self, changes: Sequence[LoggedChange]) -> list[JobEvent]:
        """The events of changes, in their order."""
        stored = await self._read({change.job for change in changes if self._asks(change)})
        names = await answered(lambda: self._names.of([job.worker for job in stored.values() if job.worker]))
        lost = [(change.job, change.at) for change in changes if change.name is JobEventName.LOST]
        losses = await answered(lambda: self._losses.find(lost)) if lost else {}
        made = []
        for change in changes:
            job = stored.get(change.job)
            facts = self._seen(change, job)
            made.append(_event(change, job, facts, names, losses.get((change.job, change.at))))
        return made

    async def with_results(
        self, events: Sequence[tuple[LogPosition, JobEvent | Gap]]
    ) -> list[tuple[LogPosition, JobEvent | Gap]]:
        """The same events, those of done jobs with their results as long as they are kept."""
        done = [
            parse_id(event.job_id)
            for _, event in events
            if isinstance(event, JobEvent) and event.name is JobEventName.DONE
        ]
        jobs = await answered(partial(self._store.jobs.get, done)) if done else []
        found = {id_text(job.id): job for job in jobs if job is not None}
        return [
            (after, _with_result(event, found.get(event.job_id)) if isinstance(event, JobEvent) else event)
            for after, event in events
        ]

    def _asks(self, change: LoggedChange) -> bool:
        """Whether the store is asked about a job: it is not known yet, or there may be something new."""
        return change.name in _CHANGING or change.job not in self._facts

    async def _read(self, ids: Iterable[JobId]) -> dict[JobId, StoredJob]:
        asked = list(ids)
        found: dict[JobId, StoredJob] = {}
        for start in range(0, len(asked), limits.ITEMS):
            some = asked[start : start + limits.ITEMS]
            jobs = await answered(partial(self._store.jobs.get, some, bodies=False))
            found |= {job.id: job for job in jobs if job is not None}
        return found

    def _seen(self, change: LoggedChange, job: StoredJob | None) -> KnownJob | None:
        """What is known of the job of a change, now and from then on."""
        if change.name is JobEventName.ENQUEUED:
            self._facts.pop(change.job, None)  # it may have been another job with the same id
        if job is not None:
            self._facts[change.job] = known_job(job)
        facts = self._facts.get(change.job)
        if facts is not None:
            self._facts.move_to_end(change.job)
        if len(self._facts) > MAX_REMEMBERED:
            self._facts.popitem(last=False)
        return facts


def known_job(job: StoredJob) -> KnownJob:
    """What stays the same of a job."""
    found = Job(job)
    return KnownJob(job.task, job.queue, found.tenant, found.correlation_id)


def failure_fields(failure: Failure) -> dict[str, Any]:
    """What a failure says, as fields of an event."""
    return {
        "error_type": failure.type,
        "error_message": redacted(failure.message),
        "attempt": failure.attempt or None,
        "worker": failure.worker or None,
        "duration": timedelta(microseconds=failure.duration) if failure.duration else None,
    }


def _event(
    change: LoggedChange,
    job: StoredJob | None,
    facts: KnownJob | None,
    names: Mapping[bytes, str],
    loss: Loss | None,
) -> JobEvent:
    fields: dict[str, Any] = {} if facts is None else facts._asdict()
    if loss is not None:
        fields |= {"attempt": loss.attempt, "worker": loss.name or loss.worker}
    if job is not None:
        fields |= _moment_fields(change, job, names)
    at = _moment(change.at)
    return JobEvent(name=change.name, job_id=id_text(change.job), at=at, position=str(change.after), **fields)


def _moment_fields(change: LoggedChange, job: StoredJob, names: Mapping[bytes, str]) -> dict[str, Any]:
    """What the store knows of this change and no other: of its moment."""
    fields: dict[str, Any] = {}
    if job.state is _STATES.get(change.name) and job.since == change.at:
        fields["attempt"] = job.attempt or None
        if job.reason is not None:
            fields["reason"] = job.reason.value
        if job.worker is not None:
            fields["worker"] = names.get(job.worker)
    if change.name in (JobEventName.AGAIN, JobEventName.DEAD, JobEventName.CANCELLED):
        failure = next((each for each in reversed(job.failures) if each.at == change.at), None)
        if failure is not None:
            fields |= failure_fields(failure)
    return fields


def _with_result(event: JobEvent, job: StoredJob | None) -> JobEvent:
    if event.name is not JobEventName.DONE or job is None or job.state is not State.DONE or job.result is None:
        return event
    if _moment(job.since) != event.at:
        return event
    try:
        return msgspec.structs.replace(event, result=codec.decode(job.result))
    except UndecodablePayload:
        return event


def _moment(micros: int) -> datetime | None:
    """A moment of the log; None if it is damaged."""
    try:
        return moment(micros) if micros > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
