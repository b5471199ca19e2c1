"""The file: how it is opened, how its journal is kept short, and whether it is still the one at its path."""

import logging
import os
import sqlite3
from functools import cache
from pathlib import Path

from packhorse.errors import DurabilityNotMet, StoreDamaged, StoreUnavailable
from packhorse.model.clock import SYSTEM
from packhorse.model.limits import SECOND
from packhorse.stores.sqlite.disk import refuse_remote
from packhorse.stores.sqlite.lock import LOCKS, Identity, Lock, identity

MIN_VERSION = (3, 38)
FIRST_SAFE_VERSION = (3, 51, 3)  # before it, two connections that write and checkpoint at once could lose a commit
BUSY_SECONDS = 30  # a call waits so long for other programs that write
BUSY_SLICE_MS = 250  # and in slices, between which the process may fork and other calls may give up
CHECK_EVERY_US = SECOND
CHECKPOINT_PAGES = 4000
LONG_JOURNAL = 64 * 1024 * 1024
READERS_WAIT_MS = 200  # that writers wait for readers to leave a journal that has become long
READERS_RETRY_MIN_US, READERS_RETRY_MAX_US = 500_000, 32_000_000  # until they are waited for again, doubled each time
# Jobs are read and written in the order they came, so a small cache serves; what is mapped counts as memory of the process.
PRAGMAS = ("cache_size = -16384", "temp_store = MEMORY")

_LOG = logging.getLogger("packhorse")

# Files whose state SQLite inherited from the parent in the middle of a transaction: it cannot open them in this process.
_STRANDED: set[Identity] = set()


class File:
    """A file, or memory, which has no lock.

    ``path`` is what the address says, ``real`` the file that it led to when it was opened: a link may lead elsewhere later.
    """

    def __init__(
        self, path: str, *, unsafe_network: bool = False, synchronous: str = "full", foreign_keys: bool = False
    ) -> None:
        self.path = self.real = path
        self.memory = path == ":memory:"
        self._unsafe_network, self._foreign_keys = unsafe_network, foreign_keys
        self._pragmas = (f"synchronous = {synchronous}", *PRAGMAS)
        self.lock = Lock()
        self._identity: Identity | None = None
        self._next_check = self._next_emptying = self._pause = 0

    def create(self) -> sqlite3.Connection:
        """The first connection to write with; the file is there afterwards, and its lock."""
        if self.memory:
            return self.holding()
        path = Path(self.path)
        refuse_remote(path, put_up_with=self._unsafe_network)
        tell_of_old_library()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.real = os.path.realpath(path)
        connection = self.writing()
        self._identity = identity(self.path)
        self.lock.make(self.real)
        return connection

    def check(self) -> None:
        """Once a second: refuse to go on in a file that is no longer at its path, and find a lock file that was removed."""
        if self.memory or SYSTEM.steady() < self._next_check:
            return
        if self.moved:
            raise StoreDamaged(
                f"{self.path} was deleted or replaced while it was open: what this process wrote since then is in a file "
                "that no other process can open; stop all processes that use it, restore the file, and start them again"
            )
        self.lock.renew()
        self._next_check = SYSTEM.steady() + CHECK_EVERY_US

    @property
    def moved(self) -> bool:
        """Whether another file, or none, is at the path of the one that is open."""
        return self._identity is not None and identity(self.path) != self._identity

    def strand(self) -> None:
        """Open no connection to this file any more, in a child that was forked in the middle of a transaction."""
        if self._identity is not None:
            _STRANDED.add(self._identity)

    def holding(self) -> sqlite3.Connection:
        """A connection for the statements of users."""
        connection = self.connection() if self.memory else self.writing()
        if self._foreign_keys:
            connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def writing(self) -> sqlite3.Connection:
        """A connection to write with."""
        connection = self.connection()
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise DurabilityNotMet(f"{self.path} cannot use WAL mode: put it on a local disk")
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SLICE_MS}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LONG_JOURNAL}")
        return connection

    def connection(self, uri: str = "") -> sqlite3.Connection:
        """A connection, by another address of the same file if one is given."""
        if _STRANDED and identity(self.real) in _STRANDED:
            raise StoreUnavailable(
                f"This process was forked while its parent had a transaction of {self.path} open, so it cannot open that "
                'file: fork before the first statement, or use the start method "spawn"'
            )
        connection = sqlite3.connect(
            uri or self.real,
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
            self._pause = min(max(2 * self._pause, READERS_RETRY_MIN_US), READERS_RETRY_MAX_US)
            self._next_emptying = SYSTEM.steady() + self._pause

    def make_room(self, connection: sqlite3.Connection) -> bool:
        """On a full disk, let the journal begin anew in the room it has, and say whether there was any in use."""
        if self.memory:
            return False
        with self.lock:
            return bool(self._emptied(connection, "RESTART"))

    def _emptied(self, connection: sqlite3.Connection, how: str) -> int | None:
        """Bring all of the journal into the file, if readers leave it soon: how many pages are left behind as scrap."""
        connection.execute(f"PRAGMA busy_timeout = {READERS_WAIT_MS}")
        try:
            busy, frames, _ = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            return None if busy else int(frames)
        except sqlite3.Error:  # whatever is not brought over stays in the journal
            return None
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SLICE_MS}")

    def _journal(self) -> int:
        try:
            return os.stat(f"{self.real}-wal").st_size  # noqa: PTH116 - at every commit, where a Path costs more than the look
        except OSError:
            return 0


@cache  # once in a process
def tell_of_old_library() -> None:
    """Say that the library has a known flaw; our lock keeps our own processes clear of it."""
    if sqlite3.sqlite_version_info < FIRST_SAFE_VERSION:
        level = logging.INFO if LOCKS else logging.WARNING
        sound = ".".join(map(str, FIRST_SAFE_VERSION))
        _LOG.log(
            level,
            "SQLite %s: before %s a rare race of checkpoints can lose a commit; let no other program write to the file while "
            "workers run, or use a Python with a newer SQLite",
            sqlite3.sqlite_version,
            sound,
        )
