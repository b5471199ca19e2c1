"""What is to be done about a schedule whose moment has come: which ticks fire, as which jobs, and when to look again."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.jobs.call import Call
from packhorse.jobs.options import Unique
from packhorse.jobs.queue import Named
from packhorse.model import codec
from packhorse.model.effect import Effect, Enqueue, Put
from packhorse.model.ids import JobId, chosen_id, id_text
from packhorse.model.job import NewJob
from packhorse.model.record import Record
from packhorse.model.rule import latest, ticks
from packhorse.schedules.schedule import KIND, Overlap, Schedule, moment_of, time_of

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

EXPECTED = "packhorse.expected"
FRESH = timedelta(minutes=1)  # a tick later than this was missed, and catch_up says what becomes of it
MOST = 100  # missed ticks that are caught up with

_SOON = timedelta(microseconds=1)


class Expected(msgspec.Struct, frozen=True):
    """A run that is to have ended by a moment."""

    schedule: str
    tick: datetime
    job: str


class Move(msgspec.Struct, frozen=True):
    """What follows from a schedule whose moment has come: the ticks that fire, and all that is written with them."""

    schedule: str
    ticks: list[datetime]
    effects: list[Effect]


def due_ticks(schedule: Schedule, due: datetime, now: datetime) -> list[datetime]:
    """The ticks that fire now: all that are fresh, and of those that were missed what the schedule says."""
    end = now if schedule.end is None else min(now, schedule.end)
    border = min(end, max(due - _SOON, now - FRESH))
    fresh = list(ticks(schedule.rule, border, end))
    if border <= due - _SOON or schedule.catch_up == "skip" or (schedule.catch_up == "latest" and fresh):
        return fresh
    missed = latest(schedule.rule, due - _SOON, border, 1 if schedule.catch_up == "latest" else MOST)
    return missed + fresh


def job_id(namespace: str, schedule: str, tick: datetime) -> JobId:
    """The one job of a schedule and a moment."""
    return chosen_id(namespace, "schedule", schedule, str(moment_of(tick)))


def job_of(desk: "Desk", schedule: Schedule, tick: datetime, *, id: JobId, overlap: Overlap, at: int = 0) -> NewJob:
    """The job that runs a schedule for a tick, now or at a moment."""
    what = schedule.what
    said: dict[str, Any] = {"headers": {"schedule": schedule.name, "tick": tick.isoformat()}, "at": at}
    if overlap == "skip":
        said["unique"] = Unique(f"schedule:{schedule.name}", until="finished")
    elif overlap == "queue":
        said["key"] = f"schedule:{schedule.name}"
    payload = what.payload.encode() if what.takes is None else codec.encode({what.takes: schedule.tick(tick)})
    return desk.job(Call(Named(desk, what.task, what.queue or "default"), payload, what.wish(**said)), id=id)


def move(desk: "Desk", record: Record, now: int) -> Move:
    """All that follows from a due record, to be written in one step: its next moment, and its jobs."""
    schedule = decoded(record)
    fired = due_ticks(schedule, time_of(record.due), time_of(now))
    effects: list[Effect] = []
    for tick in fired:
        id, at = job_id(desk.namespace, schedule.name, tick), _spread(schedule, tick)  # noqa: A001
        effects.append(Enqueue(job_of(desk, schedule, tick, id=id, overlap=schedule.overlap, at=at)))
        if schedule.expect_within is not None:
            value = msgspec.json.encode(Expected(schedule.name, tick, id_text(id)))
            key = f"{schedule.name}/{moment_of(tick)}"
            effects.append(Put(EXPECTED, key, value, due=moment_of(tick) + schedule.expect_within))
        schedule = msgspec.structs.replace(schedule, last=tick)
    effects.append(put(schedule, due=schedule.due(time_of(now)), expect=record.version))
    return Move(schedule.name, fired, effects)


def put(schedule: Schedule, *, due: int, expect: int | None) -> Put:
    """The schedule as a record."""
    return Put(KIND, schedule.name, msgspec.json.encode(schedule), expect=expect, due=due)


_DECODER = msgspec.json.Decoder(Schedule)


def decoded(record: Record) -> Schedule:
    """The schedule that a record holds."""
    return _DECODER.decode(record.value)


def _spread(schedule: Schedule, tick: datetime) -> int:
    """When the run of a tick may begin: by chance, but the same whoever asks."""
    if not schedule.jitter:
        return 0
    chance = int.from_bytes(sha256(f"{schedule.name} {moment_of(tick)}".encode()).digest()[:8], "big")
    return moment_of(tick) + chance % (schedule.jitter + 1)
