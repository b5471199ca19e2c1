"""What is in force in the file of a store and around it: the library, the journal, the disk."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from packhorse.model.finding import Durability, Finding, Grade, durability, size
from packhorse.stores.sqlite.disk import REMOTE, lies_on
from packhorse.stores.sqlite.file import FLOOR, SOUND
from packhorse.stores.sqlite.step import SQL

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
LONG_JOURNAL = 256 * 1024 * 1024
LITTLE_DISK = 512 * 1024 * 1024


def findings(path: str, connection: sqlite3.Connection | None) -> list[Finding]:
    """All that can be seen."""
    if path == ":memory:":
        words, advice = "all jobs are lost when this process ends", "give a file to keep them: sqlite:///file.db"
        return [_library(), durability(Durability.MEMORY, words, Grade.NOTE, advice)]
    where = Path(path).absolute()
    found = [Finding("file", str(where)), _library()]
    if connection is None:
        found.append(Finding("layout", "there is no such file yet", Grade.NOTE, "`packhorse migrate up` makes it"))
    else:
        found += _journal(connection)
    return [*found, *_sizes(where), *_disk(where)]


def _library() -> Finding:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < FLOOR:
        return Finding("SQLite", version, Grade.BAD, f"use a Python with SQLite {_dotted(FLOOR)} or newer")
    if sqlite3.sqlite_version_info < SOUND:
        advice = (
            f"before {_dotted(SOUND)} a rare race of checkpoints can lose a commit; the lock file keeps Packhorse's own "
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
    lock = _beside(where, ".lock")
    yield Finding("lock file", str(lock) if lock.exists() else "not there yet")


def _disk(where: Path) -> Iterator[Finding]:
    folder = next(parent for parent in where.parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < LITTLE_DISK:
        yield Finding("free disk", size(free), Grade.WARN, "free some: a full disk refuses new jobs")
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
