"""Hints that something changed: at once within a process, by looking at the file's version between processes."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator

from packhorse.stores.contract import Topic

POLL_FIRST, POLL_GROWTH, POLL_LAST = 0.001, 1.1, 0.025


class Wakes:
    """Who listens in this process, and the file that others may change."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listeners: dict[Topic, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {
            topic: set() for topic in Topic
        }

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
        file = None if self._path == ":memory:" else sqlite3.connect(self._path, isolation_level=None)
        try:
            seen, pause = _version(file), POLL_FIRST
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), pause if file else None)
                version = _version(file)
                if event.is_set() or version != seen:
                    event.clear()
                    seen, pause = version, POLL_FIRST
                    yield
                else:
                    pause = min(pause * POLL_GROWTH, POLL_LAST)
        finally:
            self._listeners[topic].discard(listener)
            if file is not None:
                file.close()


def _version(file: sqlite3.Connection | None) -> int:
    return 0 if file is None else int(file.execute("PRAGMA data_version").fetchone()[0])
