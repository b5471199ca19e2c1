"""What an exception tells of an HTTP response: its status, and how long the server asks to be left alone.

Clients are known by shape, not by import: the status stands at ``status``, ``status_code`` or the same of ``response``,
the headers at ``headers`` or ``response.headers``. Looking never raises.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from packhorse.model import limits

MAX_WAIT_US = 86_400 * limits.SECOND  # a server cannot put a job off for longer than a day
MAX_HEADERS = 500

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


def look(thing: object, name: str) -> Any:
    """An attribute, or None where it is missing or looking for it fails."""
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001 - an attribute may be the user's code
        return None


def status(error: BaseException) -> int | None:
    """The status of the response, or None."""
    for thing in (error, look(error, "response")):
        for name in ("status", "status_code"):
            value = look(thing, name)
            # By its real type, and as a plain number: what it says of itself may be the user's code.
            if issubclass(type(value), int):
                number = int.__int__(value)
                if 100 <= number <= 599:
                    return number
    return None


def retry_after(error: BaseException, now: int | None) -> int | None:
    """Microseconds the server asks to wait, at most a day.

    A date counts from the response's own ``Date``, else from ``now``; without either it means nothing.
    """
    for thing in (look(error, "response"), error):
        headers = dict(_headers(look(thing, "headers")))
        if "retry-after" in headers:
            return _wait(headers["retry-after"], headers.get("date"), now)
    return None


def _headers(given: Any) -> Iterator[tuple[str, str]]:
    try:
        for name, value in islice(given.items(), MAX_HEADERS):
            word = _text(name).lower()
            if word in {"retry-after", "date"}:
                yield word, _text(value)
    except BaseException:  # noqa: BLE001 - headers may be of any kind
        return


def _text(value: object) -> str:
    return (value.decode("latin-1") if isinstance(value, bytes) else str(value))[:64].strip()


def _wait(asked: str, date: str | None, now: int | None) -> int | None:
    if _SECONDS.fullmatch(asked):
        return round(min(float(asked) * limits.SECOND, MAX_WAIT_US))
    until = _moment(asked)
    start = now if date is None else _moment(date)
    if until is None or start is None:
        return None
    return max(0, min(until - start, MAX_WAIT_US))


def _moment(text: str) -> int | None:
    from email.utils import parsedate_to_datetime  # slow to import, and few answers name a date

    try:
        moment = parsedate_to_datetime(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (zoned - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
