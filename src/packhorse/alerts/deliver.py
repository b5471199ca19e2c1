"""The task that delivers alerts: one attempt, and what follows from how it ended."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from packhorse.alerts.alert import Alert
from packhorse.alerts.deliveries import ATTEMPTS_AT_US, KEPT, TASK, Delivered
from packhorse.alerts.messages import body
from packhorse.alerts.targets import Delivery, Target
from packhorse.engine import response
from packhorse.engine.context import Context, current
from packhorse.engine.signals import Fail, SettleAs, Snooze
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.effect import Put
from packhorse.model.exception_text import kind, message
from packhorse.model.job import Failure, Retention, failure
from packhorse.model.outcome import Again, Dead
from packhorse.model.reason import DeadReason
from packhorse.system_queue import SystemQueue
from packhorse.telemetry.redact import redacted

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

TARGETS = "packhorse.targets"
SEND_TIMEOUT_SECONDS = 15
UNKNOWN_TARGET_PAUSE = "10s"
GONE, BUSY = 410, (429, 503)
_KEEP_DEAD = Retention(1000, 7 * 24 * 3600 * limits.SECOND)


class DisabledTarget(msgspec.Struct, frozen=True):
    """Why nothing is sent to a target any more: it answered 410 Gone."""

    at: int
    why: str


class Deliverer:
    """Delivers alerts to the targets that this process knows."""

    def __init__(self, client: "Client", targets: Mapping[str, Target], clock: Clock) -> None:
        self._client, self._targets, self._clock = client, targets, clock

    def register(self, system: SystemQueue) -> None:
        """Make delivering a task of the system queue."""

        @system.task(name=TASK, attempts=len(ATTEMPTS_AT_US), keep_done=KEPT, keep_dead=KEPT)
        async def deliver(target: str, alert: Alert) -> Delivered:
            return await self.deliver(target, alert)

    async def deliver(self, name: str, alert: Alert) -> Delivered:
        """Make one attempt; a test that succeeds lets a disabled target take alerts again."""
        target, context = self._target(name), current()
        records = (await self._client.store()).records
        [disabled] = await records.get(TARGETS, [name])
        if disabled is not None and alert.phase != "test":
            return Delivered(text="the target answered 410 Gone and is disabled", skipped=True)
        begun = self._clock.steady()
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                delivery = Delivery(context.job_id, self._clock.now(), alert, body(alert))
                answer = await target.send(delivery)
        except Exception as error:  # noqa: BLE001 - a target may fail in any way, and only its own delivery fails
            await self._failed(name, context, error)
        if disabled is not None:
            await records.drop(TARGETS, [name])
        return Delivered(text=answer.text, status=answer.status, duration=self._clock.steady() - begun)

    def _target(self, name: str) -> Target:
        """The target of this name; a process that does not know it leaves the delivery to others for a day."""
        target = self._targets.get(name)
        if target is None:
            age = self._clock.now() - round(current().enqueued_at.timestamp() * limits.SECOND)
            if age > ATTEMPTS_AT_US[-1]:
                raise Fail(f"No process knew the target {name} within a day: declare it in app.alerts(to=[…])")
            raise Snooze(UNKNOWN_TARGET_PAUSE)
        return target

    async def _failed(self, name: str, context: Context, error: Exception) -> None:
        """Settle an attempt that failed: again at its next moment, or dead."""
        found = _failure_of(error)
        if (status := response.status(error)) == GONE:
            disabled = DisabledTarget(self._clock.now(), found.message)
            put = Put(TARGETS, name, msgspec.json.encode(disabled))
            await (await self._client.store()).records.put([put])
            raise SettleAs(Dead(DeadReason.FINAL, found, _KEEP_DEAD)) from error
        number = context.attempt
        if number >= self._attempts(context):
            raise SettleAs(Dead(DeadReason.EXHAUSTED, found, _KEEP_DEAD)) from error
        wait = ATTEMPTS_AT_US[number] - ATTEMPTS_AT_US[number - 1]
        asked = response.retry_after(error, self._clock.now()) if status in BUSY else None
        raise SettleAs(Again(max(wait, asked or 0), found)) from error

    @staticmethod
    def _attempts(context: Context) -> int:
        """How often this delivery is tried: calls of a monitor and tests once, alerts ten times."""
        return len(ATTEMPTS_AT_US) if context.headers.get("phase") in ("fired", "reminder", "resolved") else 1


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, TimeoutError) and not str(error):
        return failure("TimeoutError", f"no answer within {SEND_TIMEOUT_SECONDS} s")
    return failure(kind(error), redacted(message(error)))
