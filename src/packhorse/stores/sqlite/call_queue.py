"""Calls on their way to a thread and back."""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from packhorse.errors import StoreClosed

Work = Callable[[Any], Any]
ExclusiveTurn = Callable[[], bool]  # answers whether it is over; else it is to be tried again


class PendingCall:
    """One verb on its way to a thread and back."""

    __slots__ = ("again", "error", "future", "loop", "refused", "result", "skip", "urgent", "work")

    def __init__(self, work: Work, skip: Work | None = None, *, urgent: bool = False) -> None:
        self.work = work
        self.skip = skip
        self.urgent = urgent
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.again = False
        self.refused = 0  # since when another program keeps it from being served (steady clock)

    def retry(self) -> Self:
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


class CallQueue:
    """Calls that wait for a thread: urgent ones first, each kind in order; after each lot, one turn that takes longer."""

    def __init__(self, name: str, serve: Callable[["CallQueue"], None]) -> None:
        self._incoming: queue.SimpleQueue[PendingCall | ExclusiveTurn | None] = (
            queue.SimpleQueue()
        )  # None: the queue is closed
        self._closing = threading.Lock()
        self._closed = False
        # Only the thread that serves knows these.
        self._calls: deque[PendingCall] = deque()
        self._urgent: deque[PendingCall] = deque()
        self._turns: deque[ExclusiveTurn] = deque()
        self._over = False
        self._thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self._thread.start()

    def put(self, one: PendingCall | ExclusiveTurn) -> None:
        """Queue a call, for an answer or to have the thread for a while."""
        with self._closing:
            if self._closed:
                raise StoreClosed("The store is closed: open it again before calling it")
            self._incoming.put(one)

    def take(self, most: int) -> list[PendingCall]:
        """Wait for calls and take those that are there; none for a turn, and when the queue is closed and empty."""
        if not (self._urgent or self._calls or self._turns or self._over):
            self._sort_in(self._incoming.get())
        for _ in range(self._incoming.qsize()):
            self._sort_in(self._incoming.get())
        taken: list[PendingCall] = []
        for calls in (self._urgent, self._calls):
            while calls and len(taken) < most:
                taken.append(calls.popleft())
        return taken

    def _sort_in(self, one: PendingCall | ExclusiveTurn | None) -> None:
        if one is None:
            self._over = True
        elif isinstance(one, PendingCall):
            (self._urgent if one.urgent else self._calls).append(one)
        else:
            self._turns.append(one)

    def put_back(self, calls: deque[PendingCall]) -> None:
        """Put calls back at the head of the queue, and leave none of them in what was taken."""
        while calls:
            call = calls.pop()
            (self._urgent if call.urgent else self._calls).appendleft(call)

    def serve_turn(self) -> bool:
        """Let the first have the thread who wants it for a while, and say whether there was one."""
        if not self._turns:
            return False
        if self._turns[0]():
            self._turns.popleft()
        return True

    def stop(self) -> None:
        """Serve what waits, then end the thread."""
        with self._closing:
            self._closed = True
            self._incoming.put(None)
        self._thread.join()


def answer(calls: list[PendingCall]) -> None:
    """Give each caller its answer, one hop per event loop."""
    if len(calls) == 1:
        _hop(calls[0].loop, calls)
        return
    by_loop: dict[asyncio.AbstractEventLoop, list[PendingCall]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, its in by_loop.items():
        _hop(loop, its)


def _hop(loop: asyncio.AbstractEventLoop, calls: list[PendingCall]) -> None:
    with contextlib.suppress(RuntimeError):  # the caller's loop is gone
        loop.call_soon_threadsafe(_deliver, calls)


def _deliver(calls: list[PendingCall]) -> None:
    for call in calls:
        call.deliver()
