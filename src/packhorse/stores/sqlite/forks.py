"""Those who have a file open are told before the process forks, and after.

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
    """Knows who has files open. Two threads that fork at once do so one after the other."""

    def __init__(self) -> None:
        self._holders: WeakSet[Holder] = WeakSet()
        self._lock = threading.Lock()
        self._told: list[Holder] = []
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def add(self, holder: Holder) -> None:
        """Tell this one from now on, for as long as it lives."""
        with self._lock:
            self._holders.add(holder)

    def _before(self) -> None:
        self._lock.acquire()  # until after the fork
        self._told = list(self._holders)
        for holder in self._told:
            holder.before_fork()

    def _after(self) -> None:
        told, self._told = self._told, []
        for holder in told:
            holder.after_fork()
        self._lock.release()

    def _after_in_child(self) -> None:
        told, self._told = self._told, []
        for holder in told:
            holder.after_fork_in_child()
        self._holders.clear()
        self._lock.release()


FORKS = Forks()
