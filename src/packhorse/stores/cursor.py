"""Cursors of pages: opaque texts that say where the next page begins, the same in every store."""

import base64
from typing import TypeVar

import msgspec

from packhorse.errors import InvalidName, InvalidOption
from packhorse.model import limits

T = TypeVar("T")

_LARGEST = 2**62
_ADVICE = "give the cursor of the page before, unchanged and with the same filter"


def cursor_of(position: object) -> str:
    """Write a position as a cursor."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).decode()


def position_of(cursor: str, form: type[T]) -> T:
    """Read the position in a cursor; refuse a text that is no cursor of this form."""
    try:
        return msgspec.msgpack.decode(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True), type=form)
    except (AttributeError, ValueError, msgspec.MsgspecError) as error:
        raise refused(cursor) from error


def key_after(cursor: str | None) -> str:
    """Read the record key in a cursor; no cursor begins before all keys."""
    if cursor is None:
        return ""
    key = position_of(cursor, str)
    try:
        limits.key("record key", key)
    except InvalidName as error:
        raise refused(cursor) from error
    return key


def is_like(position: tuple[object, ...], pattern: tuple[object, ...]) -> bool:
    """Tell whether a position has the parts of a pattern: as many, of the same types, and numbers that a store can hold."""
    return len(position) == len(pattern) and all(
        type(part) is type(one) and (not isinstance(part, int) or -1 <= part <= _LARGEST)
        for part, one in zip(position, pattern, strict=True)
    )


def refused(cursor: object) -> InvalidOption:
    """Make the error for a text that is no cursor of an earlier page."""
    return InvalidOption("cursor", cursor, _ADVICE)
