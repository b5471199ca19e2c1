"""Statements that begin or end a transaction are not for those who only write in one."""

import re

from packhorse.errors import InvalidOption

_SPACE = r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_STEERING = re.compile(
    rf"{_SPACE}(BEGIN|START|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)


def refuse_steering(sql: str) -> None:
    """Refuse a statement that would begin or end the transaction it runs in; savepoints are fine."""
    if (found := _STEERING.match(sql)) is not None:
        raise InvalidOption(
            "statement",
            found[1].upper(),
            "the transaction is committed with the job, and rolled back if the attempt fails",
        )
