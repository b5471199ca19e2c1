"""What rules about schedules find: runs that failed, are late or were missed, until a later run is done."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from packhorse.alerts.alert import MAX_JOB_IDS, AlertFinding, StoredRule
from packhorse.alerts.details import with_details
from packhorse.model import limits
from packhorse.model.event import Event
from packhorse.model.ids import parse_id
from packhorse.model.job import State
from packhorse.schedules.failure_events import STREAM, FailureEvent
from packhorse.schedules.firing import UnreadableSchedule, decoded, job_id
from packhorse.schedules.schedule import KIND, Schedule, moment_of, time_of
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

MAX_ERROR = 500  # with all other alerts of the rule it must fit one record

_EVENT = msgspec.json.Decoder(FailureEvent)


class ScheduleFindings(msgspec.Struct, frozen=True):
    """What was found by schedule, up to where events were read, and whether there may be more of them."""

    found: Mapping[str, AlertFinding]
    cursor: int
    more: bool


async def schedule_findings(client: "Client", store: Store, rule: StoredRule) -> ScheduleFindings:
    """Read the events since the last look, and see which schedules are well again."""
    cursor = rule.cursor or 0
    events = await store.streams.read(STREAM, after=cursor, limit=limits.ITEMS)
    found = {name: state.finding for name, state in rule.alerts.items()}
    fresh = set[str]()
    for event in events:
        failure = _failure(event)
        if failure is not None and rule.spec.schedule in (None, failure.schedule):
            fresh |= {failure.schedule} - found.keys()
            found[failure.schedule] = _added(found.get(failure.schedule), failure)
    schedules = await _schedules(store, found)
    for name in fresh:
        found[name] = await _completed(client, store, found[name], schedules.get(name))
    well = {name for name, one in found.items() if await _is_well(client, store, one, schedules.get(name))}
    left = {name: finding for name, finding in found.items() if name not in well}
    return ScheduleFindings(left, events[-1].offset if events else cursor, len(events) == limits.ITEMS)


def _failure(event: Event) -> FailureEvent | None:
    try:
        failure = _EVENT.decode(event.data)
        datetime.fromisoformat(failure.tick)
    except (msgspec.MsgspecError, ValueError):
        return None
    return failure


def _added(old: AlertFinding | None, failure: FailureEvent) -> AlertFinding:
    """A finding with one more event; the job of a run counts once, however often there is an event about it."""
    finding = old or AlertFinding(schedule=failure.schedule, word=failure.event)
    moment = max(finding.moment, moment_of(datetime.fromisoformat(failure.tick)))
    if failure.job is not None and failure.job in finding.job_ids:
        return msgspec.structs.replace(finding, moment=moment)
    ids = finding.job_ids if failure.job is None else (*finding.job_ids, failure.job)[:MAX_JOB_IDS]
    return msgspec.structs.replace(finding, count=finding.count + failure.count, job_ids=ids, moment=moment)


async def _schedules(store: Store, names: Iterable[str]) -> dict[str, Schedule]:
    wanted = list(names)
    found: dict[str, Schedule] = {}
    for start in range(0, len(wanted), limits.ITEMS):
        for record in await store.records.get(KIND, wanted[start : start + limits.ITEMS]):
            if record is not None:
                try:
                    found[record.key] = decoded(record)
                except UnreadableSchedule:
                    continue
    return found


async def _completed(client: "Client", store: Store, finding: AlertFinding, schedule: Schedule | None) -> AlertFinding:
    """A new finding with the rule of the schedule, and the error of the first run, without its arguments."""
    if schedule is not None:
        finding = msgspec.structs.replace(finding, cron=schedule.rule.text)
    if not finding.job_ids:
        return finding
    [job] = await store.jobs.get([parse_id(finding.job_ids[0])])
    finding = with_details(finding, client.builder, job)
    error = None if finding.error is None else finding.error[:MAX_ERROR]
    return msgspec.structs.replace(finding, error=error, data=None)


async def _is_well(client: "Client", store: Store, finding: AlertFinding, schedule: Schedule | None) -> bool:
    """Whether a run after the last bad one is done, or that one itself was done late or when it was replayed.

    The last run may be under way, so the one before it counts too. A schedule that was removed or disabled is well.
    """
    if schedule is None or schedule.disabled:
        return True
    bad, last = time_of(finding.moment), schedule.last
    before = None if last is None else schedule.before(last - datetime.resolution)
    ticks = {bad, *(tick for tick in (last, before) if tick is not None and tick > bad)}
    ids = [job_id(client.builder.namespace, schedule.name, tick) for tick in sorted(ticks)]
    return any(job is not None and job.state is State.DONE for job in await store.jobs.get(ids, bodies=False))
