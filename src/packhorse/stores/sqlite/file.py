"""The file: how it is opened, and the lock of our own that is taken before each write.

SQLite's own busy handler sleeps and starves; whoever waits for this lock is woken.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packhorse.errors import DurabilityNotMet

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]

FLOOR = (3, 38)
BUSY_SECONDS = 30
PRAGMAS = ("synchronous = FULL", "cache_size = -65536", "mmap_size = 268435456", "temp_store = MEMORY")


class File:
    """A file, or memory, which has no lock."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.memory = path == ":memory:"
        self._lock: int | None = None

    def create(self) -> sqlite3.Connection:
        """The first connection to write with; the file is there afterwards, and its lock."""
        if self.memory:
            return self.connection()
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        connection = self.writing()
        if fcntl is not None:
            self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return connection

    def writing(self) -> sqlite3.Connection:
        """A connection to write with."""
        connection = self.connection()
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise DurabilityNotMet(f"{self.path} cannot be kept in WAL mode: put it on a local disk")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        return connection

    def connection(self, uri: str = "") -> sqlite3.Connection:
        """A connection, by another address of the same file if one is given."""
        connection = sqlite3.connect(
            uri or self.path,
            uri=bool(uri),
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_SECONDS,
            cached_statements=256,
        )
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Write alone among all processes."""
        if self._lock is None:
            yield
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def let_go(self) -> None:
        """Close the lock file; in a forked child too, where the parent's lock would outlive the parent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)
