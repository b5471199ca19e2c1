"""Durations as people write them, turned into microseconds at the edge."""

import math
import re
from datetime import timedelta

from packhorse.errors import InvalidTime
from packhorse.model import caps

Duration = timedelta | float | int | str

_UNITS = {
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*")
_WHOLE = re.compile(rf"\s*(?:{_PART.pattern})+")
_ADVICE = 'give a timedelta, a number of seconds, or text like "90s", "5m", "1h30m", "2d"'


def micros(value: Duration) -> int:
    """The duration in whole microseconds."""
    if isinstance(value, timedelta):
        total = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    elif isinstance(value, bool):
        raise InvalidTime("duration", value, _ADVICE)
    elif isinstance(value, int):
        total = value * 1_000_000
    elif isinstance(value, float):
        total = _rounded(value * 1_000_000, value)
    elif isinstance(value, str):
        total = _parse(value)
    else:
        raise InvalidTime("duration", value, _ADVICE)
    caps.span("duration", total)
    return total


def _parse(text: str) -> int:
    lower = text.lower()
    if not _WHOLE.fullmatch(lower):
        raise InvalidTime("duration", text, _ADVICE)
    return sum(_rounded(float(number) * _UNITS[unit], text) for number, unit in _PART.findall(lower))


def _rounded(micros: float, given: object) -> int:
    if not math.isfinite(micros):
        raise InvalidTime("duration", given, _ADVICE)
    return round(micros)
