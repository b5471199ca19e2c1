"""The lock of our own that is taken before each write.

SQLite's own busy handler sleeps and starves; whoever waits for this lock is woken.
"""

import contextlib
import os
import threading

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]

LOCKS: bool = fcntl is not None

Identity = tuple[int, int]  # device and inode


def identity(path: str) -> Identity | None:
    """Which file is at a path now, behind all links."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path costs more than the look
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Lock:
    """Held by whoever writes, alone among all threads and processes; memory, and Windows, have no file for it."""

    def __init__(self) -> None:
        self.path = ""
        self.identity: Identity | None = None
        self._file: int | None = None
        self._turn = threading.Lock()  # threads share the descriptor, so for the system they are one holder

    def make(self, path: str) -> None:
        """Open the lock file of a file."""
        self.path = f"{path}.lock"
        if LOCKS and self._file is None:
            self._file = _open_beside(path, self.path)
            self.identity = identity(self.path)

    @property
    def removed(self) -> bool:
        """Whether another file, or none, is at the path of the one that is locked here."""
        return self._file is not None and identity(self.path) != self.identity

    def renew(self) -> None:
        """If the lock file was removed or replaced, take the one that is at its path now: others lock that one."""
        if not self.removed:
            return
        with self._turn:
            made = _open_beside(self.path.removesuffix(".lock"), self.path)
            if self._file is None:  # closed at this moment
                os.close(made)
                return
            os.dup2(made, self._file, inheritable=False)
            os.close(made)
            self.identity = identity(self.path)

    def __enter__(self) -> None:
        self._turn.acquire()
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._turn.release()

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
        """Close the lock file, once no thread holds it: that would end its lock too."""
        with self._turn:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def let_go_in_child(self) -> None:
        """Close the lock file in a forked child: the parent's lock would outlive the parent."""
        self._turn = threading.Lock()  # a thread of the parent may have held it
        self.let_go()


def _open_beside(path: str, lock: str) -> int:
    """Open a lock file with the owner and the rights of its file, as far as this user may set them.

    Whoever may write to the file may lock it: SQLite sets those of -wal and -shm the same way.
    """
    like = os.stat(path)  # noqa: PTH116
    rights = like.st_mode & 0o666
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, rights)
    made = os.fstat(file)
    with contextlib.suppress(OSError):  # another user made it, or is in groups that this one is not in
        if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
            os.fchown(file, like.st_uid if os.geteuid() == 0 else -1, like.st_gid)
    with contextlib.suppress(OSError):
        if made.st_mode & 0o666 != rights:
            os.fchmod(file, rights)  # the umask had taken some
    return file
