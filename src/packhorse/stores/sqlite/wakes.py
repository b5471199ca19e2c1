"""Hints that something changed: at once within a process, by notices between processes, and below them by looking at the file."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator

from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.notices import Ear, Notices

Listener = tuple[asyncio.AbstractEventLoop, asyncio.Event]
POLL_FIRST, POLL_GROWTH, POLL_LAST = 0.001, 1.1, 0.025


class Wakes:
    """Who listens in this process, and the file that others may change."""

    def __init__(self, file: File) -> None:
        self._path, self._memory = file.path, file.memory
        self._notices = Notices(file.lock)
        self._listeners: dict[Topic, set[Listener]] = {topic: set() for topic in Topic}
        self._files: dict[Listener, sqlite3.Connection] = {}
        self._ears: dict[Listener, Ear] = {}
        self._turn = threading.Lock()

    def wake(self, topic: Topic) -> None:
        """Wake those who listen, after a commit; may be called from any thread."""
        self._notices.leave(topic)  # before this process looks: what another left here meanwhile is seen by that look
        for loop, event in tuple(self._listeners[topic]):
            with contextlib.suppress(RuntimeError):  # the listener's loop is gone
                loop.call_soon_threadsafe(event.set)

    async def listen(self, topic: Topic) -> AsyncIterator[None]:
        """Yield at once when Packhorse changed something, here or elsewhere, and within 25 ms when anybody did."""
        event = asyncio.Event()
        listener = (asyncio.get_running_loop(), event)
        self._listeners[topic].add(listener)
        if not self._memory and (ear := self._notices.ear(topic, event.set)) is not None:
            self._ears[listener] = ear
        try:
            seen, pause = self._version(listener), POLL_FIRST
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), None if self._memory else pause)
                version = self._version(listener)
                if event.is_set() or version != seen:
                    event.clear()
                    seen, pause = version, POLL_FIRST
                    yield
                else:
                    pause = min(pause * POLL_GROWTH, POLL_LAST)
        finally:
            self._listeners[topic].discard(listener)
            if (ear := self._ears.pop(listener, None)) is not None:
                ear.close()
            with self._turn:
                file = self._files.pop(listener, None)
                if file is not None:
                    file.close()

    def _version(self, listener: Listener) -> int:
        if self._memory:
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

    def after_fork_in_child(self) -> None:
        """Let go of what the parent hears with."""
        while self._ears:
            self._ears.popitem()[1].let_go()
        self.after_fork()
