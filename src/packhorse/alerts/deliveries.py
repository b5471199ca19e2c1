"""Deliveries of alerts: jobs of the system queue, whose attempts are the log of each delivery."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from packhorse.alerts.alert import Alert, AlertState, Phase
from packhorse.alerts.messages import alert_of
from packhorse.alerts.rules import RuleSpec
from packhorse.jobs.call import Call
from packhorse.jobs.options import Keep, call_options
from packhorse.jobs.queue import RemoteTask
from packhorse.model import codec, limits
from packhorse.model.clock import moment
from packhorse.model.effect import Enqueue
from packhorse.model.ids import id_text
from packhorse.model.job import NewJob, State, StoredJob
from packhorse.model.page import Filter
from packhorse.system_queue import SYSTEM_QUEUE

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

TASK = "packhorse.deliver"
KEPT = Keep(count=1000, age="7d")

MINUTE_US, HOUR_US = 60 * limits.SECOND, 3600 * limits.SECOND
ATTEMPTS_AT_US = (
    0, 5 * limits.SECOND, 5 * MINUTE_US, 30 * MINUTE_US,
    2 * HOUR_US, 5 * HOUR_US, 10 * HOUR_US, 14 * HOUR_US, 20 * HOUR_US, 24 * HOUR_US,
)  # fmt: skip
"""When a delivery is tried, counted from its first attempt."""


class Delivered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a delivery: what the target answered, or why nothing was sent."""

    text: str = ""
    status: int | None = None
    duration: int = 0
    skipped: bool = False


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt of a delivery."""

    number: int
    """Which attempt it was; the first is 1."""
    at: datetime
    """When it failed."""
    error: str
    """Why."""


class DeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of an alert to a target, as the log of deliveries shows it."""

    id: str
    """The id of its job."""
    target: str
    """The name of the target."""
    rule: str
    """The name of the rule."""
    phase: str
    """``fired``, ``reminder``, ``resolved`` or ``test``."""
    state: State
    """The state of its job: ``done`` is delivered, ``dead`` is given up."""
    enqueued_at: datetime
    """When it was decided."""
    since: datetime
    """The moment of its state: due, ready, running or ended since."""
    attempts: int
    """How often it was tried."""
    failures: tuple[DeliveryAttempt, ...] = ()
    """The last ten attempts that failed."""
    answer: str = ""
    """What the target answered in the end, up to 1 KiB."""
    status: int | None = None
    """The HTTP status of the answer."""


def delivery_job(
    client: "Client", target: str, alert: Alert, *, id: str, lane: str | None, attempts: int = len(ATTEMPTS_AT_US)
) -> NewJob:
    """Make the job that delivers an alert; jobs of one lane are delivered in their order."""
    options = call_options(
        id=id,
        key=lane,
        attempts=attempts,
        keep_done=KEPT,
        keep_dead=KEPT,
        headers={"target": target, "rule": alert.rule, "phase": alert.phase},
    )
    payload = codec.encode({"target": target, "alert": alert})
    return client.builder.build(Call(RemoteTask(client, TASK, SYSTEM_QUEUE), payload, options))


def deliveries_of(
    client: "Client", spec: RuleSpec, key: str, state: AlertState, phase: Phase, to: Iterable[str], now: int
) -> list[Enqueue]:
    """Make the effects that send an alert in a phase to its targets, once each: the ids of the jobs follow from the alert."""
    alert = alert_of(spec, state, phase, now)
    word = f"{phase}-{state.reminders}" if phase == "reminder" else phase
    return [
        Enqueue(
            delivery_job(
                client, target, alert, id=f"alert:{key}:{state.fired_at}:{word}:{target}", lane=f"alert:{key}:{target}"
            )
        )
        for target in to
    ]


async def find_deliveries(client: "Client", limit: int) -> list[DeliveryRecord]:
    """Read the deliveries that are kept, the newest first."""
    store = await client.store()
    found: list[StoredJob] = []
    for state in State:
        cursor: str | None = None
        count = 0
        while count < limit:
            page = await store.jobs.find(
                Filter(queue=SYSTEM_QUEUE, task=TASK, state=state), limit=min(limit, limits.ITEMS), cursor=cursor
            )
            found += page.items
            count, cursor = count + len(page.items), page.cursor
            if cursor is None:
                break
    found.sort(key=lambda job: (job.enqueued_at, job.id), reverse=True)
    return [_record(job) for job in found[:limit]]


def _record(job: StoredJob) -> DeliveryRecord:
    headers = _decoded(job.headers)
    answer = Delivered() if job.result is None else msgspec.convert(_decoded(job.result), Delivered)
    return DeliveryRecord(
        id=id_text(job.id),
        target=str(headers.get("target", "")),
        rule=str(headers.get("rule", "")),
        phase=str(headers.get("phase", "")),
        state=job.state,
        enqueued_at=moment(job.enqueued_at),
        since=moment(job.since),
        attempts=job.attempt,
        failures=tuple(
            DeliveryAttempt(number=each.attempt, at=moment(each.at), error=each.message) for each in job.failures
        ),
        answer=answer.text,
        status=answer.status,
    )


def _decoded(data: bytes) -> Mapping[str, Any]:
    return codec.decode(data, dict[str, Any])
