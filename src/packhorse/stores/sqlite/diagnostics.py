"""What is in force in the file of a store and around it: the library, the journal, the disk."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from packhorse.model.finding import Durability, Finding, Grade, durability, size
from packhorse.model.limits import SECOND
from packhorse.stores.sqlite.disk import REMOTE, lies_on
from packhorse.stores.sqlite.file import FIRST_SAFE_VERSION, MIN_VERSION, File
from packhorse.stores.sqlite.lock import identity
from packhorse.stores.sqlite.unit_of_work import SQL

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
LONG_JOURNAL = 256 * 1024 * 1024
LITTLE_DISK = 512 * 1024 * 1024


def findings(file: File, connection: sqlite3.Connection | None, now: int) -> list[Finding]:
    """All that can be seen."""
    if file.memory:
        words, advice = "all jobs are lost when this process ends", "use a file to keep them: sqlite:///file.db"
        return [_library(), durability(Durability.MEMORY, words, Grade.NOTE, advice)]
    where = Path(file.path)
    found = [_path(file), _library()]
    if connection is None:
        found.append(Finding("layout", "the file does not exist yet", Grade.NOTE, "`packhorse migrate up` creates it"))
    else:
        found += [*_journal(connection), *_clock(connection, now)]
    return [*found, *_sizes(Path(os.path.realpath(where))), _lock(file), *_disk(where)]


def _path(file: File) -> Finding:
    if file.moved:
        advice = (
            "it was deleted or replaced while this process had it open: stop all that use it, restore it, start again"
        )
        return Finding("file", file.path, Grade.BAD, advice)
    return Finding("file", file.path)


def _lock(file: File) -> Finding:
    lock = f"{os.path.realpath(file.path)}.lock"
    if file.lock.removed:
        return Finding("lock file", lock, Grade.WARN, "it was removed while in use: do not remove lock files")
    return Finding("lock file", lock if identity(lock) else "does not exist yet")


def _clock(connection: sqlite3.Connection, now: int) -> Iterator[Finding]:
    try:
        (stored, _) = connection.execute(SQL.moment).fetchone()
    except sqlite3.OperationalError:  # no layout yet
        return
    ahead = (stored - now) / SECOND
    if ahead < 1:
        yield Finding("clock", "not behind the store's time")
    else:
        advice = (
            "the clock was ahead once, or was set back: delays and leases take a tenth longer until it has caught up, and "
            "moments given with at= and schedules come early by as much; synchronize the clock with NTP"
        )
        yield Finding("clock", f"{ahead:.3f} s behind the store's time", Grade.WARN, advice)


def _library() -> Finding:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < MIN_VERSION:
        return Finding("SQLite", version, Grade.BAD, f"use a Python with SQLite {_dotted(MIN_VERSION)} or newer")
    if sqlite3.sqlite_version_info < FIRST_SAFE_VERSION:
        advice = (
            f"before {_dotted(FIRST_SAFE_VERSION)} a rare race of checkpoints can lose a commit; the lock file keeps Packhorse's own "
            "processes safe: let no other program write to this file, or use a Python with a newer SQLite"
        )
        return Finding("SQLite", version, Grade.WARN, advice)
    return Finding("SQLite", version)


def _journal(connection: sqlite3.Connection) -> Iterator[Finding]:
    mode, number = connection.execute(SQL.in_force).fetchone()
    level = SYNCHRONOUS[number]
    if mode == "wal":
        yield Finding("journal mode", mode)
    else:
        advice = "it becomes wal when a worker opens the file; if it does not, put the file on a local disk"
        yield Finding("journal mode", mode, Grade.WARN, advice)
    yield Finding("synchronous", level)
    if number >= SYNCHRONOUS.index("FULL"):
        yield durability(Durability.OS, "killed processes and a power cut lose nothing that was acknowledged")
    else:
        words = "killed processes lose nothing, a power cut may lose the last commits"
        yield durability(
            Durability.PROCESS, words, Grade.WARN, "leave synchronous=normal out of the address if that must not be"
        )


def _sizes(where: Path) -> Iterator[Finding]:
    for name, path in (("file size", where), ("journal size", _beside(where, "-wal"))):
        bytes_ = path.stat().st_size if path.exists() else 0
        if name == "journal size" and bytes_ > LONG_JOURNAL:
            advice = "something keeps a read transaction open: find and end it, then the journal can be emptied"
            yield Finding(name, size(bytes_), Grade.WARN, advice)
        else:
            yield Finding(name, size(bytes_))


def _disk(where: Path) -> Iterator[Finding]:
    folder = next(parent for parent in where.parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < LITTLE_DISK:
        yield Finding("free disk", size(free), Grade.WARN, "free space: a full disk refuses new jobs")
    else:
        yield Finding("free disk", size(free))
    kind = lies_on(where)
    if kind in REMOTE:
        advice = "a write-ahead log needs a local disk: move the file, or use Redis or PostgreSQL"
        yield Finding("file system", kind, Grade.BAD, advice)
    elif kind:
        yield Finding("file system", kind)


def _beside(where: Path, ending: str) -> Path:
    return where.with_name(where.name + ending)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
