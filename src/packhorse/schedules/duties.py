"""What every worker does for schedules: fire those whose moment has come, and look whether their runs end in time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from packhorse.engine.caretaker import Duty
from packhorse.model import limits
from packhorse.model.lease import Verdict
from packhorse.model.record import Record
from packhorse.schedules.failure_events import trim_events
from packhorse.schedules.firing import Firing, decoded, job_id, move
from packhorse.schedules.schedule import KIND, Schedule
from packhorse.schedules.watching import watch_runs
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

FIRE_PERIOD_US = 400_000  # a tick is late by no more than this and a quarter
WATCH_PERIOD_US = 5 * limits.SECOND
TRIM_PERIOD_US = 60 * limits.SECOND
AVOID_US = 60 * limits.SECOND

# records that this process cannot fire, by key and version, and until when it passes them over
Asides = dict[tuple[str, int], int]


def duties(client: "Client", store: Store, telemetry: Telemetry) -> list[Duty]:
    """The duties of a worker for schedules; harmless however many do them at once."""

    aside: Asides = {}

    async def fire() -> bool:
        await fire_due(client, store, telemetry, aside)
        return False

    async def watch() -> bool:
        await watch_runs(store, telemetry)
        return False

    async def trim() -> bool:
        return await trim_events(store)

    return [
        Duty("fire schedules", FIRE_PERIOD_US, fire),
        Duty("watch schedules", WATCH_PERIOD_US, watch),
        Duty("trim failure events", TRIM_PERIOD_US, trim),
    ]


async def fire_due(client: "Client", store: Store, telemetry: Telemetry, aside: Asides) -> int:
    """Fire every schedule whose moment has come, and say how many ticks that were."""
    fired = 0
    while True:
        asked = limits.ITEMS + min(len(aside), limits.ITEMS)
        found = await store.records.due(KIND, asked)
        if not found:
            return fired
        now = await store.ping()
        for key in [key for key, until in aside.items() if until <= now]:
            del aside[key]
        due = [record for record in found if (record.key, record.version) not in aside]
        for some in _together(await _moves(client, store, due[: limits.ITEMS], now, telemetry, aside)):
            verdicts = await store.jobs.fire([one.effects for one in some])
            for one, verdict in zip(some, verdicts, strict=True):
                if verdict is Verdict.WRITTEN:
                    fired += len(one.ticks)
                    _tell(one, telemetry)
        if not due or (len(found) < asked and len(due) <= limits.ITEMS):
            return fired


async def _moves(
    client: "Client", store: Store, due: Sequence[Record], now: int, telemetry: Telemetry, aside: Asides
) -> list[Firing]:
    """What follows from due records. One that cannot be fired here is left for others, and passed over for a while."""

    def failed(record: Record, error: Exception) -> None:
        telemetry.emit(EventName.DUTY_FAILED, detail=f"fire {record.key}", error=error)
        aside[record.key, record.version] = now + AVOID_US

    schedules: list[tuple[Record, Schedule]] = []
    for record in due:
        try:
            schedules.append((record, decoded(record)))
        except Exception as error:  # noqa: BLE001 - one schedule's failure is its own
            failed(record, error)
    busy = await _busy(client, store, [schedule for _, schedule in schedules])
    moves: list[Firing] = []
    for record, schedule in schedules:
        try:
            moves.append(move(client, record, schedule, now, busy=schedule.name in busy))
        except Exception as error:  # noqa: BLE001 - the same
            failed(record, error)
    return moves


async def _busy(client: "Client", store: Store, schedules: Sequence[Schedule]) -> set[str]:
    """The schedules whose runs must not overlap, and whose last run is not over."""
    lasts = {
        job_id(client.builder.namespace, schedule.name, schedule.last): schedule.name
        for schedule in schedules
        if schedule.overlap == "skip" and schedule.last is not None
    }
    jobs = await store.jobs.get(list(lasts), bodies=False) if lasts else []
    return {lasts[job.id] for job in jobs if job is not None and not job.state.ended}


def _tell(one: Firing, telemetry: Telemetry) -> None:
    for tick in one.ticks:
        telemetry.emit(EventName.FIRED, detail=f"{one.schedule} {tick.isoformat()}")
    if one.dropped:
        detail = f"{one.schedule} {one.dropped[-1].isoformat()}"
        telemetry.emit(EventName.RUN_MISSED, detail=detail, count=len(one.dropped))


def _together(moves: Sequence[Firing]) -> list[list[Firing]]:
    """As many at a time as one call may write."""
    parts: list[list[Firing]] = []
    room = 0
    for one in moves:
        if len(one.effects) > room or len(parts[-1]) == limits.ITEMS:
            parts.append([])
            room = limits.EFFECTS_PER_CALL
        parts[-1].append(one)
        room -= len(one.effects)
    return parts
