"""Notices between processes: whoever commits work or ends leaves one in the lock file, and Linux tells those who listen.

They are hints. Others than Packhorse leave none, and where inotify is not to be had nobody is told: that is what looking
at the file's version is for.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.lock import Lock

PLACES = {Topic.WORK: 0, Topic.ENDS: 16}  # of a notice in the lock file
NAME, COUNT = 8, 8  # bytes: who left it, and its number
MODIFIED = 2  # IN_MODIFY


class Notices:
    """Those of one file: leaves its own, and tells them apart from those of others."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._name = os.urandom(NAME)
        self._count = 0

    def leave(self, topic: Topic) -> None:
        """Tell other processes; after the commit, or they would look too early."""
        self._count += 1
        self._lock.write(self._name + self._count.to_bytes(COUNT, "big"), PLACES[topic])

    def last(self, topic: Topic) -> bytes:
        """The notice that stands there now."""
        return self._lock.read(NAME + COUNT, PLACES[topic])

    def mine(self, notice: bytes) -> bool:
        """Whether it was left here: who is in this process has been woken already."""
        return notice.startswith(self._name)

    def ear(self, topic: Topic, tell: Callable[[], None]) -> "Ear | None":
        """Somebody on this event loop who is told of every notice of others; none where that cannot be had."""
        try:
            ear = Ear(self._lock)
        except OSError:  # no such thing here, or too many of them
            return None
        seen = self.last(topic)

        def heard() -> None:
            nonlocal seen
            ear.drain()
            before, seen = seen, self.last(topic)
            if seen != before and not self.mine(seen):
                tell()

        try:
            ear.listen(heard)
        except NotImplementedError:  # an event loop that waits for sockets only
            ear.close()
            return None
        return ear


class Ear:
    """Hears of every write to a file, through a descriptor for which an event loop waits."""

    def __init__(self, lock: Lock) -> None:
        self.identity = lock.identity
        self._file = _watch(lock.path)
        self._loop = asyncio.get_running_loop()

    def listen(self, heard: Callable[[], None]) -> None:
        """Call this after a write."""
        self._loop.add_reader(self._file, heard)

    def drain(self) -> None:
        """Forget what was heard so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 4096)

    def close(self) -> None:
        """Hear no more."""
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
