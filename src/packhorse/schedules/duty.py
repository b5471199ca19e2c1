"""What every worker does for schedules: fire those whose moment has come, and look whether their runs end in time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from packhorse.engine.caretaker import Duty
from packhorse.model import caps
from packhorse.model.effect import Effect, Publish, Put
from packhorse.model.ids import parse_id
from packhorse.model.job import Job, State
from packhorse.model.lease import Verdict
from packhorse.model.record import Record
from packhorse.schedules.firing import EXPECTED, Expected, Move, move
from packhorse.schedules.schedule import KIND
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk

LOOK = 400_000  # a tick is late by no more than this and a quarter
WATCH = 5 * caps.SECOND
ASIDE = 60 * caps.SECOND
STREAM = "packhorse.schedules"

_EXPECTED = msgspec.json.Decoder(Expected)


class Alarm(msgspec.Struct, frozen=True):
    """An event of the stream ``packhorse.schedules``: a run that is ``late`` or was ``missed``."""

    event: str
    schedule: str
    tick: str
    job: str


def duties(desk: "Desk", store: Store, telemetry: Telemetry) -> list[Duty]:
    """The duties of a worker for schedules; harmless however many do them at once."""

    async def fire() -> bool:
        await fire_due(desk, store, telemetry)
        return False

    async def watch() -> bool:
        await watch_runs(store, telemetry)
        return False

    return [Duty("fire schedules", LOOK, fire), Duty("watch schedules", WATCH, watch)]


async def fire_due(desk: "Desk", store: Store, telemetry: Telemetry) -> int:
    """Fire every schedule whose moment has come, and say how many ticks that were."""
    fired = 0
    while due := await store.records.due(KIND, caps.ITEMS):
        now = await store.ping()
        for some in _together([_move(desk, record, now, telemetry) for record in due]):
            verdicts = await store.jobs.fire([one.effects for one in some])
            for one, verdict in zip(some, verdicts, strict=True):
                if verdict is Verdict.WRITTEN:
                    fired += len(one.ticks)
                    for tick in one.ticks:
                        telemetry.emit(Name.FIRED, detail=f"{one.schedule} {tick.isoformat()}")
        if len(due) < caps.ITEMS:
            break
    return fired


def _move(desk: "Desk", record: Record, now: int, telemetry: Telemetry) -> Move:
    """What follows from a due record; one that cannot be fired is put aside for a while."""
    try:
        return move(desk, record, now)
    except Exception as error:  # noqa: BLE001 - one schedule's failure is its own
        telemetry.emit(Name.DUTY_FAILED, detail=f"fire {record.key}", error=error)
        aside = Put(KIND, record.key, record.value, expect=record.version, due=now + ASIDE)
        return Move(record.key, [], [aside])


def _together(moves: Sequence[Move]) -> list[list[Move]]:
    """As many at a time as one call may write."""
    parts: list[list[Move]] = []
    room = 0
    for one in moves:
        if len(one.effects) > room or len(parts[-1]) == caps.ITEMS:
            parts.append([])
            room = caps.EFFECTS_PER_CALL
        parts[-1].append(one)
        room -= len(one.effects)
    return parts


async def watch_runs(store: Store, telemetry: Telemetry) -> None:
    """Look at all runs that are expected to end by some moment."""
    cursor: str | None = None
    while True:
        page = await store.records.find(EXPECTED, limit=caps.ITEMS, cursor=cursor)
        await _watch(store, page.items, telemetry)
        cursor = page.cursor
        if cursor is None:
            return


async def _watch(store: Store, records: Sequence[Record], telemetry: Telemetry) -> None:
    """Forget the runs that ended well; say of the others, once, that they are late or were missed."""
    if not records:
        return
    now = await store.ping()
    runs = [_EXPECTED.decode(record.value) for record in records]
    jobs = await store.jobs.get([parse_id(run.job) for run in runs])
    moves: list[list[Effect]] = []
    words: list[tuple[Name, Expected] | None] = []
    for record, run, job in zip(records, runs, jobs, strict=True):
        gone = Put(EXPECTED, record.key, None, expect=record.version)
        if job is not None and job.state is State.DONE:
            moves.append([gone])
            words.append(None)
        elif record.due <= now:
            name = _late(job)
            alarm = Alarm(name.removeprefix("run_"), run.schedule, run.tick.isoformat(), run.job)
            moves.append([gone, Publish(STREAM, msgspec.json.encode(alarm), run.schedule)])
            words.append((name, run))
    if moves:
        for verdict, word in zip(await store.jobs.fire(moves), words, strict=True):
            if verdict is Verdict.WRITTEN and word is not None:
                name, run = word
                telemetry.emit(name, job=parse_id(run.job), detail=f"{run.schedule} {run.tick.isoformat()}")


def _late(job: Job | None) -> Name:
    return Name.RUN_MISSED if job is None or job.state.ended else Name.RUN_LATE
