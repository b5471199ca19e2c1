"""What a worker process sees of jobs: its telemetry, as events with all that it knows."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from packhorse.errors import InvalidOption
from packhorse.events.details import KnownJob, failure_fields, known_job
from packhorse.events.event import JobEvent, JobEventName
from packhorse.events.filter import EventFilter
from packhorse.jobs.job import of_lease
from packhorse.model import exception_text
from packhorse.model.clock import moment
from packhorse.model.ids import JobId, id_text
from packhorse.model.job import Failure, State, StoredJob, failure
from packhorse.model.reason import DeadReason
from packhorse.telemetry.emit import Fields
from packhorse.telemetry.names import EventName

SEEN: Final[Mapping[EventName, JobEventName]] = {
    EventName.STARTED: JobEventName.CLAIMED,
    EventName.DONE: JobEventName.DONE,
    EventName.RETRYING: JobEventName.AGAIN,
    EventName.HANDED_BACK: JobEventName.AGAIN,
    EventName.WAITING: JobEventName.WAITING,
    EventName.DEAD: JobEventName.DEAD,
    EventName.CANCELLED: JobEventName.CANCELLED,
    EventName.LOST: JobEventName.LOST,
}
_AFTER_LOSS: Final = {State.DEAD.value: JobEventName.DEAD, State.CANCELLED.value: JobEventName.CANCELLED}


class SeenEvent(NamedTuple):
    """What a worker saw: the name, its moment in microseconds, and the fields of telemetry."""

    name: JobEventName
    at: int
    fields: Fields

    def may_be_wanted_by(self, wanted: EventFilter) -> bool:
        """Whether a filter may want it, as far as that is known without the store."""
        if self.name not in wanted.names or (self.name in wanted.failures and self.fields.get("error") is None):
            return False
        lease = self.fields.get("lease")
        return lease is None or bool(lease.fault) or wanted.wants_job(lease.queue, lease.task)

    @property
    def unknown_job(self) -> JobId | None:
        """The id of its job, if more of it is not known here."""
        return None if self.fields.get("lease") is not None else self.fields.get("job")

    def event(self, found: Mapping[JobId, StoredJob]) -> JobEvent:
        """The event, with what was found of its job if the worker does not know it."""
        about = self._of_loss(found) if self.unknown_job is not None else self._of_lease()
        return JobEvent(name=self.name, at=moment(self.at), **about)

    def _of_lease(self) -> dict[str, Any]:
        lease, fields = self.fields["lease"], self.fields
        job = of_lease(lease)
        known = KnownJob(job.task, job.queue, job.tenant, job.correlation_id)
        about: dict[str, Any] = {"job_id": job.id} if lease.fault else {"job_id": job.id, **known._asdict()}
        if (error := fields.get("error")) is not None:
            about |= failure_fields(error if isinstance(error, Failure) else _failure(error))
        if (reason := fields.get("reason")) is not None:
            about["reason"] = str(reason)
        if (duration := fields.get("duration")) is not None:
            about["duration"] = timedelta(microseconds=duration)
        return {**about, "attempt": lease.attempt, "worker": fields.get("worker")}

    def _of_loss(self, found: Mapping[JobId, StoredJob]) -> dict[str, Any]:
        job, stored = self.fields["job"], found.get(self.fields["job"])
        about: dict[str, Any] = {} if stored is None else known_job(stored)._asdict()
        if self.name is JobEventName.DEAD:
            about["reason"] = DeadReason.POISON.value
        about |= {"attempt": self.fields.get("attempts"), "worker": self.fields.get("holder")}
        return {"job_id": id_text(job), **about}


def seen(name: EventName, fields: Fields, at: int) -> list[SeenEvent]:
    """What telemetry tells of a job: one event, or two where a loss was the end of the job."""
    events = [SeenEvent(SEEN[name], at, fields)]
    if name is EventName.LOST and (end := _AFTER_LOSS.get(fields.get("detail", ""))) is not None:
        events.append(SeenEvent(end, at, fields))
    return events


def sources(wanted: EventFilter) -> list[EventName]:
    """The telemetry that a filter needs."""
    names = {source for source, name in SEEN.items() if name in wanted.names}
    return sorted(names | ({EventName.LOST} if wanted.names & set(_AFTER_LOSS.values()) else set()))


def only_seen(wanted: EventFilter, *, named: bool) -> EventFilter:
    """The filter without what workers do not see; if that was named, it is refused."""
    unseen = wanted.names - set(SEEN.values())
    if named and unseen:
        raise InvalidOption(
            "event",
            ", ".join(sorted(unseen)),
            f"workers see {', '.join(dict.fromkeys(SEEN.values()))}; app.events has all names",
        )
    return EventFilter(wanted.names - unseen, wanted.failures, wanted.queue, wanted.task)


def _failure(error: BaseException) -> Failure:
    return failure(exception_text.kind(error), exception_text.message(error))
