"""Notices between processes: whoever commits work, ends or events leaves one in the lock file, and Linux tells those who listen.

They are hints. Other programs leave none, and without inotify nobody is woken: polling the file's version covers both.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.lock import Lock

EVENTS: Literal["events"] = "events"  # streams have new ones
Cause = Topic | Literal["events"]  # of a notice
PLACES: dict[Cause, int] = {Topic.WORK: 0, Topic.ENDS: 16, EVENTS: 32}  # of a notice in the lock file
NAME, COUNT = 8, 8  # bytes: who left it, and its number
MODIFIED = 2  # IN_MODIFY


class FileNotices:
    """Those of one file: leaves its own, and tells them apart from those of others."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._name = os.urandom(NAME)
        self._count = 0

    def leave(self, cause: Cause) -> None:
        """Tell other processes; after the commit, or they would look too early."""
        self._count += 1
        self._lock.write(self._name + self._count.to_bytes(COUNT, "big"), PLACES[cause])

    def last(self, cause: Cause) -> bytes:
        """The notice that stands there now."""
        return self._lock.read(NAME + COUNT, PLACES[cause])

    def mine(self, notice: bytes) -> bool:
        """Whether it was left here: who is in this process has been woken already."""
        return notice.startswith(self._name)

    def watcher(self, cause: Cause, tell: Callable[[], None]) -> "FileWatcher | None":
        """Call ``tell`` on this event loop for every notice of another process; None without inotify."""
        try:
            watcher = FileWatcher(self._lock)
        except OSError:  # no such thing here, or too many of them
            return None
        seen = self.last(cause)

        def on_write() -> None:
            nonlocal seen
            watcher.drain()
            before, seen = seen, self.last(cause)
            if seen != before and not self.mine(seen):
                tell()

        try:
            watcher.listen(on_write)
        except NotImplementedError:  # an event loop that waits for sockets only
            watcher.close()
            return None
        return watcher


class FileWatcher:
    """Watches writes to a file through an inotify descriptor in the event loop."""

    def __init__(self, lock: Lock) -> None:
        self.identity = lock.identity
        self._file = _watch(lock.path)
        self._loop = asyncio.get_running_loop()

    def listen(self, on_write: Callable[[], None]) -> None:
        """Call this after a write."""
        self._loop.add_reader(self._file, on_write)

    def drain(self) -> None:
        """Forget what was on_write so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 4096)

    def close(self) -> None:
        """Stop watching."""
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.remove_reader(self._file)
        self.let_go()

    def let_go(self) -> None:
        """Close the descriptor only: a forked child has a copy of it, but the event loop is its parent's."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _watch(path: str) -> int:
    libc = _libc()
    if libc is None:
        raise OSError("there is no inotify")
    file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if file < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if libc.inotify_add_watch(file, os.fsencode(path), MODIFIED) < 0:
        os.close(file)
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    return int(file)


@cache
def _libc() -> Any | None:
    """The C library, if it has inotify; the standard library of Python does not reach it."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # Windows has no such thing as the program's own symbols
        return None
    return libc if hasattr(libc, "inotify_init1") else None
