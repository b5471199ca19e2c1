"""Errors of the driver as ours, in one place."""

import sqlite3
from pathlib import Path

from packhorse.errors import (
    ConfigError,
    OutcomeUnknown,
    PackhorseError,
    SchemaMismatch,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

_KINDS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_BUSY: StoreUnavailable,
    sqlite3.SQLITE_LOCKED: StoreUnavailable,
    sqlite3.SQLITE_CANTOPEN: StoreUnavailable,
    sqlite3.SQLITE_READONLY: StoreUnavailable,
    sqlite3.SQLITE_PERM: StoreUnavailable,
    sqlite3.SQLITE_IOERR: StoreUnavailable,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
    sqlite3.SQLITE_NOTADB: StoreDamaged,
}
_ADVICE: dict[type[StoreError], str] = {
    StoreFull: "free some disk space",
    StoreDamaged: "restore a backup, or save what can be read with the command .recover of the sqlite3 program",
}


def translated(error: BaseException) -> BaseException:
    """The error of the driver as one of ours."""
    if isinstance(error, PackhorseError) or not isinstance(error, sqlite3.Error):
        return error
    text, kind = str(error), _KINDS.get(_code(error), StoreError)
    if kind in _ADVICE:
        text = f"{text}: {_ADVICE[kind]}"
    elif "no such table" in text:
        kind, text = SchemaMismatch, "The layout of the store is missing: call `await store.migrate()`"
    made = kind(text)
    made.__cause__ = error
    return made


def full(error: BaseException) -> bool:
    """Whether there was no room on the disk."""
    return isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_FULL


def busy(error: BaseException) -> bool:
    """Whether another connection wrote and was waited for in vain."""
    return isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY


def unsure(error: BaseException) -> BaseException:
    """The error of a commit: nobody knows what became of the transaction, unless there was no room for it."""
    if not isinstance(error, sqlite3.Error) or full(error):
        return translated(error)
    made = OutcomeUnknown(f"The commit failed ({error}): repeat the call with the same ids")
    made.__cause__ = error
    return made


def unopened(path: str, error: sqlite3.Error | OSError) -> PackhorseError:
    """The error of opening a file."""
    if Path(path).is_dir():
        return ConfigError(f"{path} is a folder: name a file in it, as in {path}/packhorse.db")
    if isinstance(error, sqlite3.Error):
        code = _code(error)
        if code == sqlite3.SQLITE_NOTADB:
            return ConfigError(f"{path} is no SQLite database, or an encrypted one: name another file")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL):
            kind = _KINDS[code]
            return kind(f"{path} cannot be opened: {error}: {_ADVICE[kind]}")
    return StoreUnavailable(
        f"{path} cannot be opened: {error}; this user must have the right to write to the file, to those beside it "
        "(-wal, -shm, .lock) and to their folder"
    )


def _code(error: sqlite3.Error) -> int:
    """What went wrong, without the details."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
