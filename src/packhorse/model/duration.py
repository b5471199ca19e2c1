"""Durations as people write them, turned into microseconds at the edge."""

import math
import re
from datetime import timedelta

from packhorse.errors import InvalidTime
from packhorse.model import limits

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


def micros(value: Duration, what: str = "duration", *, low: int = 0) -> int:
    """The duration in whole microseconds, of at least so many; an error names the option and speaks of what was given."""
    if isinstance(value, timedelta):
        total = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    elif isinstance(value, bool):
        raise InvalidTime(what, value, _ADVICE)
    elif isinstance(value, int):
        total = value * 1_000_000
    elif isinstance(value, float) and math.isfinite(value * 1_000_000):
        total = round(value * 1_000_000)
    elif isinstance(value, str) and _WHOLE.fullmatch(value.lower()):
        total = _parse(value.lower())
    else:
        raise InvalidTime(what, value, _ADVICE)
    if not low <= total <= limits.MAX_DURATION_US:
        least = "more than 0 seconds" if low == 1 else f"{low / limits.SECOND:g} seconds or more"
        raise InvalidTime(what, value, f"give {least}, up to a hundred years")
    return total


def _parse(text: str) -> int:
    """The sum of its parts; one of very many digits is over every limit."""
    parts = [float(number) * _UNITS[unit] for number, unit in _PART.findall(text)]
    return round(min(sum(parts), 2.0 * limits.MAX_DURATION_US))
