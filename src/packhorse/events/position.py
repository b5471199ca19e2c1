"""Where a reader of the log is: which entry, and how many changes of it were seen."""

import re
from typing import NamedTuple

from packhorse.errors import InvalidOption

MAX_OFFSET = 2**53 - 1

_TEXT = re.compile(r"([1-9][0-9]{0,15})\.([0-9]{1,7})")


class LogPosition(NamedTuple):
    """A position in the log: an entry, and how many changes of it were seen."""

    offset: int
    seen: int = 0

    def __str__(self) -> str:
        return f"{self.offset}.{self.seen}"


def parse_position(text: object) -> LogPosition:
    """Read the text of a position, or refuse it."""
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) > MAX_OFFSET:
        raise InvalidOption("after", text, 'give the position of an event, a datetime, or "earliest"')
    return LogPosition(int(match[1]), int(match[2]))
