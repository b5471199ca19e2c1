"""Hints that something changed: at once within a process, by looking at the file's version between processes."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator

from packhorse.stores.contract import Topic

Listener = tuple[asyncio.AbstractEventLoop, asyncio.Event]
POLL_FIRST, POLL_GROWTH, POLL_LAST = 0.001, 1.1, 0.025


class Wakes:
    """Who listens in this process, and the file that others may change."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listeners: dict[Topic, set[Listener]] = {topic: set() for topic in Topic}
        self._files: dict[Listener, sqlite3.Connection] = {}
        self._turn = threading.Lock()

    def wake(self, topic: Topic) -> None:
        """Wake those who listen in this process; may be called from any thread."""
        for loop, event in tuple(self._listeners[topic]):
            with contextlib.suppress(RuntimeError):  # the listener's loop is gone
                loop.call_soon_threadsafe(event.set)

    async def listen(self, topic: Topic) -> AsyncIterator[None]:
        """Yield at once when this process changed something, and within 25 ms when another did."""
        event = asyncio.Event()
        listener = (asyncio.get_running_loop(), event)
        self._listeners[topic].add(listener)
        memory = self._path == ":memory:"
        try:
            seen, pause = self._version(listener), POLL_FIRST
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), None if memory else pause)
                version = self._version(listener)
                if event.is_set() or version != seen:
                    event.clear()
                    seen, pause = version, POLL_FIRST
                    yield
                else:
                    pause = min(pause * POLL_GROWTH, POLL_LAST)
        finally:
            self._listeners[topic].discard(listener)
            with self._turn:
                file = self._files.pop(listener, None)
                if file is not None:
                    file.close()

    def _version(self, listener: Listener) -> int:
        if self._path == ":memory:":
            return 0
        with self._turn:
            file = self._files.get(listener)
            if file is None:
                file = self._files[listener] = sqlite3.connect(
                    self._path, isolation_level=None, check_same_thread=False
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
