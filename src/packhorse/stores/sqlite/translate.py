"""Errors of the driver as ours, in one place."""

import sqlite3

from packhorse.errors import (
    OutcomeUnknown,
    PackhorseError,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)


def translated(error: BaseException) -> BaseException:
    """The error of the driver as one of ours."""
    if isinstance(error, PackhorseError) or not isinstance(error, sqlite3.Error):
        return error
    text, kind = str(error), StoreError
    if "full" in text:
        kind, text = StoreFull, f"{text}: free some disk space"
    elif "locked" in text or "busy" in text or "unable to open" in text or "readonly" in text or "disk I/O" in text:
        kind = StoreUnavailable
    elif "no such table" in text:
        kind, text = SchemaMismatch, "The layout of the store is missing: call `await store.migrate()`"
    made = kind(text)
    made.__cause__ = error
    return made


def unsure(error: BaseException) -> BaseException:
    """The error of a commit: nobody knows what became of the transaction."""
    if not isinstance(error, sqlite3.Error):
        return error
    made = OutcomeUnknown(f"The commit failed ({error}): repeat the call with the same ids")
    made.__cause__ = error
    return made
