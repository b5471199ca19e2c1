"""Notify everything that has a file open before the process forks, and after.

SQLite keeps what it knows of locks in memory. A child that inherits an open file would believe in locks that nobody
holds, and wait for ever for those that a thread of its parent held. So no file is open while the process forks.
"""

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Holder(Protocol):
    """Somebody with open files."""

    def before_fork(self) -> None:
        """Let calls under way end, begin no more, and close the files."""

    def after_fork(self) -> None:
        """Go on, in the parent."""

    def after_fork_in_child(self) -> None:
        """Let go of what only the parent may use."""


class Forks:
    """The holders of open files. Two threads that fork at once do so one after the other."""

    def __init__(self) -> None:
        self._holders: WeakSet[Holder] = WeakSet()
        self._lock = threading.Lock()
        self._notified: list[Holder] = []
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def add(self, holder: Holder) -> None:
        """Notify this holder from now on, for as long as it lives."""
        with self._lock:
            self._holders.add(holder)

    def _before(self) -> None:
        self._lock.acquire()  # until after the fork
        self._notified = list(self._holders)
        for holder in self._notified:
            holder.before_fork()

    def _after(self) -> None:
        notified, self._notified = self._notified, []
        for holder in notified:
            holder.after_fork()
        self._lock.release()

    def _after_in_child(self) -> None:
        notified, self._notified = self._notified, []
        for holder in notified:
            holder.after_fork_in_child()
        self._holders.clear()
        self._lock.release()


FORKS = Forks()
