"""Emit events: cheap without subscribers, and a failing subscriber never harms the caller."""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from packhorse.errors import InvalidOption
from packhorse.telemetry.names import EventName

Fields = Mapping[str, Any]
Subscriber = Callable[[EventName, Fields], object]

_LOG = logging.getLogger("packhorse.telemetry")


class _Subscription:
    """A subscriber, its condition, and the events it failed on."""

    __slots__ = ("call", "failed", "when")

    def __init__(self, call: Subscriber, when: Callable[[EventName], bool] | None) -> None:
        self.call = call
        self.when = when
        self.failed: frozenset[EventName] = frozenset()


class Telemetry:
    """Calls subscribers for each event, at once and on the thread where it happened.

    A subscriber has to be quick and fit for any thread. One that fails harms neither the others nor the caller; that is
    logged, once for each name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced, never changed: readers take no lock.
        self._subscriptions: Mapping[EventName, tuple[_Subscription, ...]] = {}

    def on(
        self, subscriber: Subscriber, *names: EventName | str, when: Callable[[EventName], bool] | None = None
    ) -> Callable[[], None]:
        """Subscribe to these names, or to all; the answer ends the subscription when called.

        ``when`` is asked by ``wants``: a subscriber that passes over a name for now costs as little as none.
        """
        _check(subscriber)
        subscription = _Subscription(subscriber, when)
        chosen = {_name(name) for name in names} or set(EventName)
        with self._lock:
            self._subscriptions = {
                name: self._subscriptions.get(name, ()) + ((subscription,) if name in chosen else ())
                for name in EventName
                if name in chosen or name in self._subscriptions
            }

        def off() -> None:
            with self._lock:
                left = {
                    name: tuple(each for each in subscriptions if each is not subscription)
                    for name, subscriptions in self._subscriptions.items()
                }
                self._subscriptions = {name: subscriptions for name, subscriptions in left.items() if subscriptions}

        return off

    def wants(self, name: EventName) -> bool:
        """Whether a subscriber wants this event now; ask before gathering the fields of frequent events."""
        for subscription in self._subscriptions.get(name, ()):
            if subscription.when is None:
                return True
            try:
                if subscription.when(name):
                    return True
            except Exception as error:  # noqa: BLE001 - it is the user's code
                self._log(subscription, name, error)
        return False

    def emit(self, name: EventName, /, **fields: Any) -> None:
        """Call the subscribers of this event."""
        subscriptions = self._subscriptions.get(name)
        if not subscriptions:
            return
        view = MappingProxyType(fields)
        for subscription in subscriptions:
            try:
                subscription.call(name, view)
            except KeyboardInterrupt:  # meant for the process, whoever is running
                raise
            except BaseException as error:  # noqa: BLE001 - it is the user's code
                self._log(subscription, name, error)

    def bind(self, **always: Any) -> "Telemetry":
        """The same telemetry with these fields added to every event."""
        return _BoundTelemetry(self, always)

    def _log(self, subscription: _Subscription, name: EventName, error: BaseException) -> None:
        with self._lock:
            if name in subscription.failed:
                return
            subscription.failed |= {name}
        with suppress(Exception):  # handlers and filters are the user's code as well
            _LOG.error("A subscriber to %r failed; its further failures are not logged", name.value, exc_info=error)


def _check(subscriber: object) -> None:
    call = getattr(subscriber, "__call__", None)  # noqa: B004 - asked below whether it is async
    if call is None or inspect.iscoroutinefunction(subscriber) or inspect.iscoroutinefunction(call):
        raise InvalidOption("subscriber", subscriber, "give a plain function; an async one is never awaited")


class _BoundTelemetry(Telemetry):
    """Adds the same fields to every event."""

    def __init__(self, telemetry: Telemetry, always: Mapping[str, Any]) -> None:
        self._telemetry, self._always = telemetry, always
        self.on, self.wants = telemetry.on, telemetry.wants  # type: ignore[method-assign]

    def emit(self, name: EventName, /, **fields: Any) -> None:
        """Call the subscribers of this event, with the fixed fields added."""
        self._telemetry.emit(name, **{**self._always, **fields})


def _name(name: EventName | str) -> EventName:
    try:
        return EventName(name)
    except ValueError as error:
        raise InvalidOption("name", name, f"give one of {', '.join(EventName)}") from error
