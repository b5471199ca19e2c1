"""What is to be done about a schedule whose moment has come: which ticks fire, as which jobs, and when to look again."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.errors import InvalidSchedule
from packhorse.jobs.call import Call
from packhorse.jobs.options import Unique
from packhorse.jobs.queue import RemoteTask
from packhorse.model import codec
from packhorse.model.effect import Effect, Enqueue, Publish, Put
from packhorse.model.ids import JobId, chosen_id, id_text
from packhorse.model.job import NewJob
from packhorse.model.record import Record
from packhorse.model.rule import latest, ticks
from packhorse.schedules.failure_events import STREAM, FailureEvent
from packhorse.schedules.schedule import KIND, Overlap, Schedule, Tick, moment_of, time_of

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

EXPECTED = "packhorse.expected"
MISSED_AFTER = timedelta(minutes=1)  # a tick later than this was missed, and catch_up says what becomes of it
MAX_CAUGHT_UP = 100  # missed ticks that are caught up with
MAX_COUNTED = 1000  # ticks without a run that one event counts

_RESOLUTION = timedelta(microseconds=1)


class Expected(msgspec.Struct, frozen=True):
    """A run that is to have ended by a moment."""

    schedule: str
    tick: datetime
    job: str


class Firing(msgspec.Struct, frozen=True):
    """What follows from a schedule whose moment has come: the ticks that fire, those that should have and do not (if
    someone wants to hear of them), and all that is written with them."""

    schedule: str
    ticks: list[datetime]
    dropped: list[datetime]
    effects: list[Effect]


def due_ticks(schedule: Schedule, due: datetime, now: datetime) -> list[datetime]:
    """The ticks that fire now: all that are fresh, and of those that were missed what the schedule says.

    Where runs must not overlap there is one at most, the last: the others would only find it in their way.
    """
    begin, end = _between(schedule, due, now)
    border = min(end, max(begin, now - MISSED_AFTER))
    found = list(ticks(schedule.rule, border, end))
    if border > begin and (schedule.catch_up == "all" or (schedule.catch_up == "latest" and not found)):
        found = latest(schedule.rule, begin, border, MAX_CAUGHT_UP if schedule.catch_up == "all" else 1) + found
    return found[-1:] if schedule.overlap == "skip" else found


def _between(schedule: Schedule, due: datetime, now: datetime) -> tuple[datetime, datetime]:
    """After and until which moments ticks are due."""
    begin = due if schedule.start is None else max(due, schedule.start)
    return begin - _RESOLUTION, now if schedule.end is None else min(now, schedule.end)


def job_id(namespace: str, schedule: str, tick: datetime) -> JobId:
    """The one job of a schedule and a moment."""
    return chosen_id(namespace, "schedule", schedule, str(moment_of(tick)))


def job_of(
    client: "Client",
    schedule: Schedule,
    tick: Tick,
    *,
    id: JobId,
    overlap: Overlap,
    at: int = 0,
) -> NewJob:
    """The job that runs a schedule for a tick, now or at a moment."""
    what = schedule.what
    options: dict[str, Any] = {"headers": {"schedule": schedule.name, "tick": tick.at.isoformat()}, "at": at}
    if overlap == "skip":
        options["unique"] = Unique(f"schedule:{schedule.name}", until="finished")
    elif overlap == "queue":
        options["key"] = f"schedule:{schedule.name}"
    payload = what.payload.encode() if what.takes is None else codec.encode({what.takes: tick})
    target = RemoteTask(client, what.task, what.queue or "default")
    job = client.builder.build(Call(target, payload, what.call_options(**options)), id=id)
    # one after the other, however many of a key the queue runs at once
    return msgspec.structs.replace(job, lane_limit=1) if overlap == "queue" else job


def move(client: "Client", record: Record, schedule: Schedule, now: int, *, busy: bool) -> Firing:
    """All that follows from a due record, to be written in one step: its next moment, and its jobs.

    ``busy`` says that the last run is not over, and that there must be none beside it.
    """
    due, moment = time_of(record.due), time_of(now)
    fired = [] if busy else due_ticks(schedule, due, moment)
    effects: list[Effect] = []
    for at in fired:
        id, begin = job_id(client.builder.namespace, schedule.name, at), _spread(schedule, at)  # noqa: A001
        tick = schedule.tick(at, schedule.last)
        effects.append(Enqueue(job_of(client, schedule, tick, id=id, overlap=schedule.overlap, at=begin)))
        if schedule.expect_within is not None:
            value = msgspec.json.encode(Expected(schedule.name, at, id_text(id)))
            key = f"{schedule.name}/{moment_of(at)}"
            effects.append(Put(EXPECTED, key, value, due=moment_of(at) + schedule.expect_within))
        schedule = msgspec.structs.replace(schedule, last=at)
    dropped = [] if schedule.expect_within is None else _dropped(schedule, due, moment, fired)
    if dropped:
        alarm = FailureEvent("missed", schedule.name, dropped[-1].isoformat(), count=len(dropped))
        effects.append(Publish(STREAM, msgspec.json.encode(alarm), schedule.name))
    effects.append(put(schedule, due=schedule.due(moment), expect=record.version))
    return Firing(schedule.name, fired, dropped, effects)


def _dropped(schedule: Schedule, due: datetime, now: datetime, fired: list[datetime]) -> list[datetime]:
    """The last of the ticks that have no run."""
    made = set(fired)
    return [tick for tick in latest(schedule.rule, *_between(schedule, due, now), MAX_COUNTED) if tick not in made]


def put(schedule: Schedule, *, due: int, expect: int | None) -> Put:
    """The schedule as a record."""
    return Put(KIND, schedule.name, msgspec.json.encode(schedule), expect=expect, due=due)


class UnreadableSchedule(InvalidSchedule):
    """A record that is no schedule, or one of a newer release."""


_DECODER = msgspec.json.Decoder(Schedule)


def decoded(record: Record) -> Schedule:
    """The schedule that a record holds."""
    try:
        return _DECODER.decode(record.value)
    except msgspec.MsgspecError as error:
        raise UnreadableSchedule(
            record.key, f"its record cannot be read here ({error}): upgrade, or remove it"
        ) from error


def _spread(schedule: Schedule, tick: datetime) -> int:
    """When the run of a tick may begin: by chance, but the same whoever asks."""
    if not schedule.jitter:
        return 0
    chance = int.from_bytes(sha256(f"{schedule.name} {moment_of(tick)}".encode()).digest()[:8], "big")
    return moment_of(tick) + chance % (schedule.jitter + 1)
