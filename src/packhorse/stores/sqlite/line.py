"""Calls on their way to a thread and back."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from packhorse.errors import StoreClosed

Work = Callable[[Any], Any]
Turn = Callable[[], None]


class Call:
    """One verb on its way to a thread and back."""

    __slots__ = ("again", "answer", "error", "future", "loop", "result", "skip", "work")

    def __init__(self, work: Work, skip: Work | None) -> None:
        self.work = work
        self.skip = skip
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.again = False

    def once_more(self) -> Self:
        """Serve it a second time, and not a third: there was no room for it."""
        self.error, self.again = None, True
        return self

    def deliver(self) -> None:
        """Hand the answer to the caller, on its loop."""
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Line:
    """Calls that wait for a thread: urgent ones first, each kind in order; after each lot, one turn that takes longer."""

    def __init__(self, name: str, serve: Callable[["Line"], None]) -> None:
        self._calls: deque[Call] = deque()
        self._urgent: deque[Call] = deque()
        self._turns: deque[Turn] = deque()
        self._there = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self._thread.start()

    def put(self, call: Call, *, urgent: bool = False) -> None:
        """Stand in line."""
        with self._there:
            self._check()
            (self._urgent if urgent else self._calls).append(call)
            self._there.notify()

    def put_turn(self, turn: Turn) -> None:
        """Stand in line to have the thread for a while."""
        with self._there:
            self._check()
            self._turns.append(turn)
            self._there.notify()

    def _check(self) -> None:
        if self._stopping:
            raise StoreClosed("The store is closed: open it again before calling it")

    def take(self, most: int) -> list[Call]:
        """Wait for calls and take those that are there; none for a turn, and when the line is closed and empty."""
        with self._there:
            while not (self._urgent or self._calls or self._turns or self._stopping):
                self._there.wait()
            taken: list[Call] = []
            while len(taken) < most and (self._urgent or self._calls):
                taken.append((self._urgent or self._calls).popleft())
            return taken

    def take_turn(self) -> Turn | None:
        """The first who wants to have the thread for a while, if there is one."""
        return self._turns.popleft() if self._turns else None

    def stop(self) -> None:
        """Serve what waits, then end the thread."""
        with self._there:
            self._stopping = True
            self._there.notify()
        self._thread.join()


def answer(calls: list[Call]) -> None:
    """Give each caller its answer, one hop per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, its in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the caller's loop is gone
            loop.call_soon_threadsafe(_deliver, its)


def _deliver(calls: list[Call]) -> None:
    for call in calls:
        call.deliver()
