"""Threads of our own that pull attempts from a queue: no hop over the event loop per job."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Threads(Generic[T]):
    """As many threads as there was ever work for at once, up to a size. What they run must not raise."""

    def __init__(self, size: int, run: Callable[[T], None]) -> None:
        self._size = size
        self._run = run
        self._line: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._counting = threading.Lock()

    def put(self, work: T) -> None:
        """Have something run by the next free thread."""
        with self._counting:
            self._idle -= 1
            short = self._idle < 0 and len(self._threads) < self._size
            if short:
                self._idle += 1
        self._line.put(work)
        if short:
            self._add()

    def _add(self) -> None:
        # A daemon: a thread that user code keeps for ever must not keep the process.
        name = f"packhorse-thread-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (work := self._line.get()) is not None:
            self._run(work)
            del work
            with self._counting:
                self._idle += 1

    def take_back(self) -> list[T]:
        """What no thread has begun yet; it will not be run."""
        taken: list[T] = []
        while True:
            try:
                work = self._line.get_nowait()
            except queue.Empty:
                break
            if work is not None:
                taken.append(work)
        with self._counting:
            self._idle += len(taken)
        return taken

    def stop(self) -> None:
        """Let each thread end after what it runs now; does not wait for that."""
        for _ in self._threads:
            self._line.put(None)
