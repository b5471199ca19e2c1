"""The file: how it is opened, and the lock of our own that is taken before each write.

SQLite's own busy handler sleeps and starves; whoever waits for this lock is woken.
"""

import contextlib
import logging
import os
import sqlite3
from functools import cache
from pathlib import Path

from packhorse.errors import DurabilityNotMet
from packhorse.model.clock import SYSTEM
from packhorse.stores.sqlite.disk import refuse_remote

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]

FLOOR = (3, 38)
SOUND = (3, 51, 3)  # before it, two connections that write and checkpoint at once could lose a commit
BUSY_SECONDS = 30
CHECKPOINT_PAGES = 4000
LONG_JOURNAL = 64 * 1024 * 1024
READERS_PATIENCE = 200  # milliseconds that writers wait for readers to leave a journal that has become long
READERS_PAUSE, LONGEST_PAUSE = 500_000, 32_000_000  # microseconds until they are waited for again, doubled each time
# Jobs are read and written in the order they came, so a small cache serves; what is mapped counts as memory of the process.
PRAGMAS = ("cache_size = -16384", "temp_store = MEMORY")

_LOG = logging.getLogger("packhorse")


class Lock:
    """Held by whoever writes, alone among all processes; memory, and Windows, have none to hold."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None

    def make(self, rights: int) -> None:
        """Open the lock file."""
        if fcntl is not None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, rights)

    def __enter__(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def write(self, data: bytes, at: int) -> None:
        """Leave a few bytes in the lock file, which mean nothing to the lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk
                os.pwrite(self._file, data, at)

    def read(self, size: int, at: int) -> bytes:
        """What was left there last."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # closed at this moment
                return os.pread(self._file, size, at)
        return b""

    def let_go(self) -> None:
        """Close the lock file; in a forked child too, where the parent's lock would outlive the parent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class File:
    """A file, or memory, which has no lock."""

    def __init__(self, path: str, *, unsafe_network: bool = False, synchronous: str = "full") -> None:
        self.path = path
        self.memory = path == ":memory:"
        self._unsafe_network = unsafe_network
        self._pragmas = (f"synchronous = {synchronous}", *PRAGMAS)
        self.lock = Lock(f"{path}.lock")
        self._wal = f"{path}-wal"
        self._next_emptying = self._pause = 0

    def create(self) -> sqlite3.Connection:
        """The first connection to write with; the file is there afterwards, and its lock."""
        if self.memory:
            return self.connection()
        path = Path(self.path)
        refuse_remote(path, put_up_with=self._unsafe_network)
        tell_of_old_library()
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = self.writing()
        self.lock.make(path.stat().st_mode & 0o666)  # whoever may write to the file may lock it
        return connection

    def writing(self) -> sqlite3.Connection:
        """A connection to write with."""
        connection = self.connection()
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise DurabilityNotMet(f"{self.path} cannot be kept in WAL mode: put it on a local disk")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LONG_JOURNAL}")
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
        for pragma in self._pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def shorten(self, connection: sqlite3.Connection) -> None:
        """Empty a journal that has become long, under the lock: a commit empties it only while nobody reads.

        Readers are waited for, but not for long: one that stays is waited for again later.
        """
        if self.memory or SYSTEM.steady() < self._next_emptying or self._journal() <= LONG_JOURNAL:
            return
        if self._emptied(connection, "TRUNCATE") is not None:
            self._pause = 0
        else:
            self._pause = min(max(2 * self._pause, READERS_PAUSE), LONGEST_PAUSE)
            self._next_emptying = SYSTEM.steady() + self._pause

    def make_room(self, connection: sqlite3.Connection) -> bool:
        """On a full disk, let the journal begin anew in the room it has, and say whether there was any in use."""
        if self.memory:
            return False
        with self.lock:
            return bool(self._emptied(connection, "RESTART"))

    def _emptied(self, connection: sqlite3.Connection, how: str) -> int | None:
        """Bring all of the journal into the file, if readers leave it soon: how many pages are left behind as scrap."""
        connection.execute(f"PRAGMA busy_timeout = {READERS_PATIENCE}")
        try:
            busy, frames, _ = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            return None if busy else int(frames)
        except sqlite3.Error:  # whatever is not brought over stays in the journal
            return None
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def _journal(self) -> int:
        try:
            return os.stat(self._wal).st_size  # noqa: PTH116 - at every commit, where a Path costs more than the look
        except OSError:
            return 0


@cache  # once in a process
def tell_of_old_library() -> None:
    """Say that the library has a known flaw; our lock keeps our own processes clear of it."""
    if sqlite3.sqlite_version_info < SOUND:
        level = logging.WARNING if fcntl is None else logging.INFO  # type: ignore[redundant-expr]  # Windows has no lock
        sound = ".".join(map(str, SOUND))
        _LOG.log(
            level,
            "SQLite %s: before %s a rare race of checkpoints can lose a commit; let no other program write to the file while "
            "workers run, or use a Python with a newer SQLite",
            sqlite3.sqlite_version,
            sound,
        )
