"""Saying what happened: cheap while nobody listens, and never a danger to the one who says it."""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from packhorse.errors import InvalidOption
from packhorse.telemetry.names import Name

Fields = Mapping[str, Any]
Subscriber = Callable[[Name, Fields], object]

_LOG = logging.getLogger("packhorse.telemetry")


class _Ear:
    """One subscription."""

    __slots__ = ("call", "failed", "when")

    def __init__(self, call: Subscriber, when: Callable[[Name], bool] | None) -> None:
        self.call = call
        self.when = when
        self.failed: frozenset[Name] = frozenset()


class Telemetry:
    """Tells subscribers what happened, at once and on the thread where it happened.

    A subscriber has to be quick and fit for any thread. One that fails harms neither the others nor the caller; that is
    logged, once for each name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ears: Mapping[Name, tuple[_Ear, ...]] = {}  # replaced, never changed: readers take no lock

    def on(
        self, subscriber: Subscriber, *names: Name | str, when: Callable[[Name], bool] | None = None
    ) -> Callable[[], None]:
        """Subscribe to these names, or to all; the answer ends the subscription when called.

        ``when`` is asked by ``wants``: a subscriber that passes over a name for now costs as little as none.
        """
        _check(subscriber)
        ear = _Ear(subscriber, when)
        chosen = {_name(name) for name in names} or set(Name)
        with self._lock:
            self._ears = {
                name: self._ears.get(name, ()) + ((ear,) if name in chosen else ())
                for name in Name
                if name in chosen or name in self._ears
            }

        def off() -> None:
            with self._lock:
                left = {name: tuple(each for each in ears if each is not ear) for name, ears in self._ears.items()}
                self._ears = {name: ears for name, ears in left.items() if ears}

        return off

    def wants(self, name: Name) -> bool:
        """Whether anyone wants to hear this now; ask before gathering fields where it is said often."""
        for ear in self._ears.get(name, ()):
            if ear.when is None:
                return True
            try:
                if ear.when(name):
                    return True
            except Exception as error:  # noqa: BLE001 - it is the user's code
                self._log(ear, name, error)
        return False

    def emit(self, name: Name, /, **fields: Any) -> None:
        """Say what happened."""
        ears = self._ears.get(name)
        if not ears:
            return
        said = MappingProxyType(fields)
        for ear in ears:
            try:
                ear.call(name, said)
            except KeyboardInterrupt:  # meant for the process, whoever is running
                raise
            except BaseException as error:  # noqa: BLE001 - it is the user's code
                self._log(ear, name, error)

    def saying(self, **always: Any) -> "Telemetry":
        """The same, with these fields in all that is said through it."""
        return _Saying(self, always)

    def _log(self, ear: _Ear, name: Name, error: BaseException) -> None:
        with self._lock:
            if name in ear.failed:
                return
            ear.failed |= {name}
        with suppress(Exception):  # handlers and filters are the user's code as well
            _LOG.error("A subscriber to %r failed, and is not logged again for that", name.value, exc_info=error)


def _check(subscriber: object) -> None:
    call = getattr(subscriber, "__call__", None)  # noqa: B004 - asked below whether it is async
    if call is None or inspect.iscoroutinefunction(subscriber) or inspect.iscoroutinefunction(call):
        raise InvalidOption("subscriber", subscriber, "give a plain function; an async one is never awaited")


class _Saying(Telemetry):
    """Adds what its user need not repeat."""

    def __init__(self, telemetry: Telemetry, always: Mapping[str, Any]) -> None:
        self._telemetry, self._always = telemetry, always
        self.on, self.wants = telemetry.on, telemetry.wants  # type: ignore[method-assign]

    def emit(self, name: Name, /, **fields: Any) -> None:
        """Say what happened, and what is always said."""
        self._telemetry.emit(name, **{**self._always, **fields})


def _name(name: Name | str) -> Name:
    try:
        return Name(name)
    except ValueError as error:
        raise InvalidOption("name", name, f"give one of {', '.join(Name)}") from error
