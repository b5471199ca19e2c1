"""Where alerts go: what a target is, the log, and your own functions. Webhooks and e-mail have modules of their own."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from packhorse.alerts.alert import Alert
from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.printable import printable

MAX_TARGET_NAME = 100

_LOG = logging.getLogger("packhorse.alerts")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}


class Delivery(msgspec.Struct, frozen=True):
    """One attempt to deliver an alert."""

    id: str
    """The id of the delivery: the same for every attempt."""
    at: int
    """When the attempt began, in microseconds since 1970."""
    alert: Alert
    """What is delivered."""
    body: bytes
    """The alert as JSON, without fields that do not apply."""


class DeliveryAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a target answered."""

    text: str = ""
    status: int | None = None


@runtime_checkable
class Target(Protocol):
    """Takes alerts. It has a name by which deliveries find it, the same in every process and release."""

    @property
    def name(self) -> str: ...  # noqa: D102

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Deliver an alert, or raise: ``DeliveryFailed`` with what is known, or any exception."""


class LogTarget:
    """Writes alerts to the logger ``packhorse.alerts``, at the level of their severity; what is resolved at INFO."""

    def __init__(self, name: str = "log") -> None:
        self.name = name

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Write one line."""
        alert = delivery.alert
        level = logging.INFO if alert.phase == "resolved" else _LEVELS[alert.severity]
        fields = {
            "alert": alert.rule, "phase": alert.phase, "severity": alert.severity, "queue": alert.queue,
            "task": alert.task, "schedule": alert.schedule, "count": alert.count,
        }  # fmt: skip
        known = {name: value for name, value in fields.items() if value is not None}
        _LOG.log(level, "%s: %s [%s]", alert.phase, printable(alert.message), printable(alert.rule), extra=known)
        return DeliveryAnswer()


log_alerts = LogTarget()
"""The log as a target."""


class FunctionTarget:
    """Calls a coroutine function with each alert."""

    def __init__(self, function: Callable[[Alert], Awaitable[object]], name: str) -> None:
        self.name, self._function = name, function

    async def send(self, delivery: Delivery) -> DeliveryAnswer:
        """Call the function."""
        await self._function(delivery.alert)
        return DeliveryAnswer()


AnyTarget = Target | Callable[[Alert], Awaitable[object]]


def target_of(given: object) -> Target:
    """Give a target as it is, or make one of a coroutine function."""
    if isinstance(given, Target) and not isinstance(given, type):
        limits.name("alert target", given.name, MAX_TARGET_NAME)
        return given
    call = getattr(given, "__call__", None)  # noqa: B004 - asked below whether it is async
    if callable(given) and (inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(call)):
        name = getattr(given, "__qualname__", type(given).__qualname__)
        return FunctionTarget(given, f"{getattr(given, '__module__', '')}.{name}"[-MAX_TARGET_NAME:])
    raise InvalidOption("to", given, "give targets such as Webhook(…), log_alerts, or an async function")


def targets_by_name(given: Sequence[object]) -> dict[str, Target]:
    """Check targets, and refuse two of one name that are not the same."""
    found: dict[str, Target] = {}
    for one in given:
        target = target_of(one)
        other = found.setdefault(target.name, target)
        if other is not target and not (isinstance(other, FunctionTarget) and isinstance(target, FunctionTarget)):
            raise InvalidOption("to", target.name, "two targets have this name: give one of them another with name=")
    return found
