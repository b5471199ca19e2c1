"""Hints that something changed: at once within a process, by notices between processes, and below them by looking at the file."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator

from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.notices import Ear, Notices

POLL_FIRST, POLL_GROWTH, POLL_LAST = 0.001, 1.1, 0.025
POLL_HEARING = 0.1  # instead of all these for who hears notices: by looking he finds only what others commit


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


class Wakes:
    """Who listens in this process, and the file that others may change."""

    def __init__(self, file: File) -> None:
        self._file, self._memory = file, file.memory
        self._notices = Notices(file.lock)
        self._listeners: dict[Topic, set[Listener]] = {topic: set() for topic in Topic}
        self._files: dict[Listener, sqlite3.Connection] = {}
        self._ears: dict[Listener, Ear] = {}
        self._turn = threading.Lock()

    def wake(self, topic: Topic) -> None:
        """Wake those who listen, after a commit; may be called from any thread."""
        self._notices.leave(topic)  # before this process looks: what another left here meanwhile is seen by that look
        for listener in tuple(self._listeners[topic]):
            with contextlib.suppress(RuntimeError):  # the listener's loop is gone
                listener.loop.call_soon_threadsafe(listener.wake)

    async def listen(self, topic: Topic) -> AsyncIterator[None]:
        """Yield at once when Packhorse changed something, here or elsewhere, and within 100 ms when anybody did."""
        listener, first, longest = Listener(), POLL_FIRST, POLL_LAST
        self._listeners[topic].add(listener)
        if not self._memory and self._hears(listener, topic):
            first, longest = POLL_HEARING, POLL_HEARING
        try:
            seen, pause = self._version(listener), first
            while True:
                await listener.rest(None if self._memory else pause)
                self._hear_again(listener, topic)
                version = self._version(listener)
                if listener.woken or version != seen:
                    listener.woken = False
                    seen, pause = version, first
                    yield
                else:
                    pause = min(pause * POLL_GROWTH, longest)
        finally:
            self._listeners[topic].discard(listener)
            self._deafen(listener)
            with self._turn:
                file = self._files.pop(listener, None)
                if file is not None:
                    file.close()

    def _hears(self, listener: Listener, topic: Topic) -> bool:
        ear = self._notices.ear(topic, listener.wake)
        if ear is not None:
            self._ears[listener] = ear
        return ear is not None

    def _hear_again(self, listener: Listener, topic: Topic) -> None:
        """Listen to the lock file that is used now, if the one that was listened to was removed."""
        ear = self._ears.get(listener)
        if ear is not None and ear.identity != self._file.lock.identity:
            self._deafen(listener)
            self._hears(listener, topic)

    def _deafen(self, listener: Listener) -> None:
        if (ear := self._ears.pop(listener, None)) is not None:
            ear.close()

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
        """Let go of what the parent hears with."""
        while self._ears:
            self._ears.popitem()[1].let_go()
        self.after_fork()
