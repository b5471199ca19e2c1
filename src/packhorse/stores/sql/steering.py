"""Statements that begin or end a transaction, or change its kind, are not for those who only write in one."""

import re

from packhorse.errors import InvalidOption

# SQLite takes a byte order mark as a space.
SPACE = r"(?:\s|\ufeff|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_STEERING = re.compile(
    rf"{SPACE}(BEGIN|START|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+"
_CHANGING = re.compile(
    rf"{SPACE}SET{_GAP}(?:(?:SESSION|LOCAL){_GAP})?"
    r"(?:TRANSACTION|CHARACTERISTICS|\"?(?:DEFAULT_)?TRANSACTION_(?:ISOLATION|READ_ONLY|DEFERRABLE)\"?)\b",
    re.IGNORECASE | re.DOTALL,
)


def refuse_steering(sql: str) -> None:
    """Refuse a statement that would begin, end or change the transaction it runs in; savepoints are fine."""
    if (found := _STEERING.match(sql)) is not None:
        raise InvalidOption(
            "statement",
            found[1].upper(),
            "the transaction is committed with the job, and rolled back if the attempt fails",
        )
    if _CHANGING.match(sql) is not None:
        raise InvalidOption(
            "statement",
            "SET TRANSACTION",
            "the transaction settles the job, for which it must be READ COMMITTED and able to write; lock the rows you "
            "read (FOR UPDATE) if you need more",
        )
