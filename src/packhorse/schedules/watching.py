"""Looking whether runs that are expected to end by some moment do."""

from collections.abc import Sequence

import msgspec

from packhorse.errors import PackhorseError
from packhorse.model import limits
from packhorse.model.effect import Effect, Publish, Put
from packhorse.model.ids import parse_id
from packhorse.model.job import State, StoredJob
from packhorse.model.lease import Verdict
from packhorse.model.record import Record
from packhorse.schedules.failure_events import STREAM, FailureEvent
from packhorse.schedules.firing import EXPECTED, Expected
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

_EXPECTED = msgspec.json.Decoder(Expected)


async def watch_runs(store: Store, telemetry: Telemetry) -> None:
    """Look at all runs that are expected to end by some moment."""
    cursor: str | None = None
    while True:
        page = await store.records.find(EXPECTED, limit=limits.ITEMS, cursor=cursor)
        await _watch(store, page.items, telemetry)
        cursor = page.cursor
        if cursor is None:
            return


async def _watch(store: Store, records: Sequence[Record], telemetry: Telemetry) -> None:
    """Forget the runs that ended well; say of the others, once, that they are late or were missed."""
    if not records:
        return
    now = await store.ping()
    runs = {record.key: run for record in records if (run := _expected(record)) is not None}
    jobs = dict(
        zip(runs, await store.jobs.get([parse_id(run.job) for run in runs.values()], bodies=False), strict=True)
    )
    moves: list[list[Effect]] = []
    words: list[tuple[EventName, Expected] | None] = []
    for record in records:
        gone = Put(EXPECTED, record.key, None, expect=record.version)
        run, job = runs.get(record.key), jobs.get(record.key)
        if run is None:
            if record.due <= now:
                telemetry.emit(EventName.DUTY_FAILED, detail=f"watch {record.key}")
                moves.append([gone])
                words.append(None)
        elif job is not None and job.state is State.DONE:
            moves.append([gone])
            words.append(None)
        elif record.due <= now:
            name = _late(job)
            alarm = FailureEvent(name.removeprefix("run_"), run.schedule, run.tick.isoformat(), run.job)
            moves.append([gone, Publish(STREAM, msgspec.json.encode(alarm), run.schedule)])
            words.append((name, run))
    if moves:
        for verdict, word in zip(await store.jobs.fire(moves), words, strict=True):
            if verdict is Verdict.WRITTEN and word is not None:
                name, run = word
                telemetry.emit(name, job=parse_id(run.job), detail=f"{run.schedule} {run.tick.isoformat()}")


def _expected(record: Record) -> Expected | None:
    """The run that a record means; None if it cannot be read here."""
    try:
        run = _EXPECTED.decode(record.value)
        parse_id(run.job)
    except (msgspec.MsgspecError, PackhorseError):
        return None
    return run


def _late(job: StoredJob | None) -> EventName:
    return EventName.RUN_MISSED if job is None or job.state.ended else EventName.RUN_LATE
