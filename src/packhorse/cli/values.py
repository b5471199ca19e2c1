"""Option types: name=value pairs, moments, durations, numbers by name."""

import difflib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from packhorse.errors import InvalidTime
from packhorse.model import limits
from packhorse.model.clock import SYSTEM, moment
from packhorse.model.duration import micros


class Pair(click.ParamType):  # type: ignore[type-arg]  # only generic in newer releases of click
    """``name=value``; the value is JSON if it parses as JSON, else text."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the name and the value."""
        if not isinstance(value, str):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form name=value.", param, ctx)
        return name, parse_value(text)


class Moment(click.ParamType):  # type: ignore[type-arg]  # only generic in newer releases of click
    """A moment: ISO 8601 (UTC without a zone), or a duration before or after now."""

    name = "moment"

    def __init__(self, *, back: bool = False) -> None:
        self._sign = -1 if back else 1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the moment; it has a time zone."""
        if not isinstance(value, str):
            return value
        try:
            return moment(SYSTEM.now()) + self._sign * timedelta(microseconds=micros(value))
        except InvalidTime:
            pass
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a moment: use 15m, 2h, 3d or 2026-01-31T12:00:00Z.", param, ctx)
        return when if when.tzinfo else when.replace(tzinfo=UTC)


class Length(click.ParamType):  # type: ignore[type-arg]  # only generic in newer releases of click
    """A duration: ``90s``, ``5m``, ``1h30m``, or a number of seconds."""

    name = "duration"

    def __init__(self, low: int = 0) -> None:
        self._low = low

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the duration."""
        if isinstance(value, timedelta):
            return value
        try:
            length = micros(float(value) if _number(value) else value)
        except InvalidTime:
            self.fail(f"{value!r} is not a duration: use 90s, 5m, 1h30m, 2d or a number of seconds.", param, ctx)
        if length < self._low:
            self.fail(f"{value!r} is too short: use {self._low / limits.SECOND:g}s or more.", param, ctx)
        return timedelta(microseconds=length)


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Names with numbers: ``critical:6,default:3,low``; a name alone has the number 1."""

    name = "name:number,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the numbers by name."""
        if not isinstance(value, str):
            return value
        numbers: dict[str, int] = {}
        for part in value.split(","):
            name, colon, number = part.strip().rpartition(":")
            name, number = (name, number) if colon and number.isdecimal() else (part.strip(), "1")
            if not name or not int(number):
                self.fail(f"{value!r} is not understood: write for example critical:6,default:3,low.", param, ctx)
            numbers[name] = int(number)
        return numbers


def suggestion(name: str, known: Collection[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known name, or an empty text."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def parse_value(text: str) -> Any:
    """Return a typed value: JSON if it parses as JSON, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True
