"""Hints that something changed: at once within a process, by notices between processes, and below them by looking at the file."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncGenerator

from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.notices import EVENTS, PLACES, Cause, FileNotices, FileWatcher

POLL_MIN_SECONDS, POLL_GROWTH, POLL_MAX_SECONDS = 0.001, 1.1, 0.025
POLL_WATCHED_SECONDS = 0.1  # for a listener with a FileWatcher: polling finds only commits of other programs


class Listener:
    """Somebody who waits to be woken, on the event loop that runs."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.woken = False
        self._up = asyncio.Event()

    def wake(self) -> None:
        """There may be something; on the loop."""
        self.woken = True
        self._up.set()

    async def rest(self, longest: float | None) -> None:
        """Wait to be woken, but not for ever. A timer takes half of what ``wait_for`` does, which makes a task each time."""
        timer = None if longest is None else self.loop.call_later(longest, self._up.set)
        try:
            await self._up.wait()
        finally:
            self._up.clear()
            if timer is not None:
                timer.cancel()


class SQLiteWakes:
    """Who listens in this process, and the file that others may change."""

    def __init__(self, file: File) -> None:
        self._file, self._memory = file, file.memory
        self._notices = FileNotices(file.lock)
        self._listeners: dict[Cause, set[Listener]] = {cause: set() for cause in PLACES}
        self.event_listeners = self._listeners[EVENTS]
        self._files: dict[Listener, sqlite3.Connection] = {}
        self._watchers: dict[Listener, FileWatcher] = {}
        self._turn = threading.Lock()

    def wake(self, cause: Cause) -> None:
        """Wake those who listen, after a commit; may be called from any thread."""
        self._notices.leave(cause)  # before this process looks: what another left here meanwhile is seen by that look
        self.wake_here(cause)

    def wake_here(self, cause: Cause) -> None:
        """Wake those who listen in this process; listeners in others notice that the file has changed."""
        for listener in tuple(self._listeners[cause]):
            with contextlib.suppress(RuntimeError):  # the listener's loop is gone
                listener.loop.call_soon_threadsafe(listener.wake)

    async def listen(self, cause: Cause, *, at_once: bool = False) -> AsyncGenerator[None, None]:
        """Yield at once when Packhorse changed something, here or elsewhere, and within 100 ms when anybody did."""
        listener, first, longest = Listener(), POLL_MIN_SECONDS, POLL_MAX_SECONDS
        self._listeners[cause].add(listener)
        if not self._memory and self._watch(listener, cause):
            first, longest = POLL_WATCHED_SECONDS, POLL_WATCHED_SECONDS
        try:
            seen, pause = self._version(listener), first
            if at_once:
                listener.wake()
            while True:
                await listener.rest(None if self._memory else pause)
                self._watch_current_file(listener, cause)
                version = self._version(listener)
                if listener.woken or version != seen:
                    listener.woken = False
                    seen, pause = version, first
                    yield
                else:
                    pause = min(pause * POLL_GROWTH, longest)
        finally:
            self._listeners[cause].discard(listener)
            self._unwatch(listener)
            with self._turn:
                file = self._files.pop(listener, None)
                if file is not None:
                    file.close()

    def _watch(self, listener: Listener, cause: Cause) -> bool:
        watcher = self._notices.watcher(cause, listener.wake)
        if watcher is not None:
            self._watchers[listener] = watcher
        return watcher is not None

    def _watch_current_file(self, listener: Listener, cause: Cause) -> None:
        """Watch the current lock file if the watched one was removed."""
        watcher = self._watchers.get(listener)
        if watcher is not None and watcher.identity != self._file.lock.identity:
            self._unwatch(listener)
            self._watch(listener, cause)

    def _unwatch(self, listener: Listener) -> None:
        if (watcher := self._watchers.pop(listener, None)) is not None:
            watcher.close()

    def _version(self, listener: Listener) -> int:
        if self._memory:
            return 0
        with self._turn:
            file = self._files.get(listener)
            if file is None:
                file = self._files[listener] = sqlite3.connect(
                    self._file.real, isolation_level=None, check_same_thread=False
                )
            return int(file.execute("PRAGMA data_version").fetchone()[0])

    def before_fork(self) -> None:
        """Close the file; whoever listens opens it again."""
        self._turn.acquire()
        while self._files:
            self._files.popitem()[1].close()

    def after_fork(self) -> None:
        """Let listeners look again."""
        self._turn.release()

    def after_fork_in_child(self) -> None:
        """Close the watchers inherited from the parent."""
        while self._watchers:
            self._watchers.popitem()[1].let_go()
        self.after_fork()
