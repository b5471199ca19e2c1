"""How large things may be, and the checks that refuse what is larger or malformed at the edge."""

from collections.abc import Sized
from functools import lru_cache

from packhorse.errors import (
    InvalidArguments,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
    TooManyBytes,
    TooManyItems,
)

PAYLOAD = 1 << 20
RESULT = 1 << 20
VALUE = 1 << 20
HEADERS = 16 << 10
PROGRESS = 16 << 10
TRACEBACK = 64 << 10
MESSAGE = 8 << 10
EFFECTS = 500
EFFECTS_PER_CALL = 2000
ITEMS = 500
EXCHANGE_BYTES = 4 << 20  # what a worker settles, and what it leases, in one exchange
CALL_BYTES = 64 << 20  # jobs or effects that are stored all or none
NAME = 255
KEY = 512
DETAIL = 1024
PRIORITY = 8191
LANE_LIMIT = 32767
CHILDREN = 1_000_000
LOOKED_AT = 1000
FAILURES = 10
LOSSES = 32_767
STORE_MIN_LEASE_US = 1000

RESERVED = "packhorse."  # what our own names begin with
OWN_NAMES = {
    "queue": frozenset({"packhorse.system"}),
    "task": frozenset({"packhorse.bulk", "packhorse.collect", "packhorse.deliver"}),
    "stream": frozenset({"packhorse.audit", "packhorse.jobs", "packhorse.lost", "packhorse.schedules"}),
}

SECOND = 1_000_000
MAX_TIME_US = 4_102_444_800 * SECOND  # 2100-01-01: later moments are a mistake in units
MAX_DURATION_US = 36_525 * 86_400 * SECOND  # a hundred years


_WHY_RESERVED = f"names that begin with {RESERVED!r} are kept for Packhorse itself; choose another"


@lru_cache(maxsize=8192)
def _fault(what: str, text: str, cap: int) -> str | None:
    if not text:
        return "it is empty"
    if text.startswith(RESERVED) and what in OWN_NAMES and text not in OWN_NAMES[what]:
        return _WHY_RESERVED
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        return "it holds a control character; use printable text"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it holds a lone surrogate; decode the text properly first"
    return f"it has {size} bytes, the limit is {cap}" if size > cap else None


def name(what: str, text: object, cap: int = NAME) -> None:
    """Refuse a name that some store could not hold or that could be taken for something else."""
    if not isinstance(text, str):
        raise InvalidName(what, text, "it is not text")
    if why := _fault(what, text, cap):
        raise InvalidName(what, text, why)


def not_reserved(what: str, text: object) -> None:
    """Refuse a name that is no name, or is kept for Packhorse itself: also one that Packhorse uses."""
    name(what, text)
    if str(text).startswith(RESERVED):
        raise InvalidName(what, text, _WHY_RESERVED)


def key(what: str, text: object) -> None:
    """Refuse a key (lane, unique key, record key): a name that may be longer."""
    name(what, text, KEY)


def text(what: str, data: object, cap: int) -> None:
    """Refuse bytes that are not UTF-8 text without NUL, or are over the cap."""
    if not isinstance(data, bytes):
        raise InvalidArguments(f"{what} is not bytes")
    if len(data) > cap:
        raise PayloadTooLarge(what, len(data), cap)
    if b"\0" in data:
        raise InvalidArguments(f"{what} holds a NUL byte")
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"{what} is not UTF-8 text") from error


def words(what: str, given: str, cap: int) -> None:
    """Refuse text that could not be stored as such bytes."""
    try:
        data = given.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(f"{what} holds a lone surrogate; decode the text properly first") from error
    text(what, data, cap)


def within(what: str, value: object, low: int, high: int) -> None:
    """Refuse an option that is no whole number between two bounds."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidOption(what, value, f"give a whole number from {low} to {high}")


def moment(what: str, value: object) -> None:
    """Refuse a moment that is no whole number of microseconds before the year 2100."""
    if type(value) is not int or not 0 <= value <= MAX_TIME_US:
        raise InvalidTime(what, value, "give microseconds since 1970, before the year 2100")


def span(what: str, value: object, low: int = 0) -> None:
    """Refuse a duration that is no whole number of microseconds up to a hundred years."""
    if type(value) is not int or not low <= value <= MAX_DURATION_US:
        raise InvalidTime(what, value, f"give microseconds from {low} up to a hundred years")


def items(what: str, things: Sized, cap: int = ITEMS) -> None:
    """Refuse more items than one call may carry."""
    if len(things) > cap:
        raise TooManyItems(what, len(things), cap)


def total(what: str, size: int) -> None:
    """Refuse more bytes than one call may store all or none."""
    if size > CALL_BYTES:
        raise TooManyBytes(what, size, CALL_BYTES)
