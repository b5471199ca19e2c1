"""The writer, held by one attempt for a bounded time: its calls run between one BEGIN and one COMMIT."""

import asyncio
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from packhorse.errors import TransactionOver, TransactionTooLong
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.stores.sqlite.call_queue import PendingCall, answer

T = TypeVar("T")

CHECK_EVERY_INSTRUCTIONS = 10_000  # of SQLite, between two looks at the clock


class HeldWriter:
    """Waits in the queue of the writer. Once it is its turn, calls run on the writer until one of them ends the transaction.

    Others wait meanwhile, so it is over after ``limit``, counted from its turn, whatever the attempt does.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._until = 0
        self._calls: queue.SimpleQueue[PendingCall | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._why: BaseException | None = None
        self.unclean = False  # a statement may have set something that outlives the transaction
        self._serving = False
        self._working = threading.Lock()  # held while a call runs: the process does not fork in the middle of one
        self.refused = 0  # since when another program keeps it from its turn (steady clock)
        self.left = ReopenableEvent(shut=True)  # open once the writer is free again

    # -- the attempt's side

    async def tell(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Have something done on the writer, in order."""
        call = PendingCall(work)
        with self._turn:
            if self._why is not None:
                raise self._why
            self._calls.put(call)
        return await call.future  # type: ignore[no-any-return]

    # -- the writer's side

    def serve(self, connection: sqlite3.Connection) -> None:
        """Run calls until the transaction is over or time is up; a transaction that is still open is rolled back later."""
        if self.over:
            return
        self._until = SYSTEM.steady() + self._limit
        connection.set_progress_handler(self._late, CHECK_EVERY_INSTRUCTIONS)
        self._serving = True
        try:
            while connection.in_transaction and (call := self._next()) is not None:
                with self._working:
                    self._run(call, connection)
                answer([call])
        finally:
            with self._working:
                self._serving = False
                connection.set_progress_handler(None, 0)
        self.end(self._too_long() if connection.in_transaction else TransactionOver())

    @property
    def over(self) -> bool:
        """Whether no more calls are taken; perhaps it was given up while it was queued."""
        return self._why is not None

    def freeze(self) -> bool:
        """Begin no more calls until ``thaw``, and say whether that could be had: the transaction is open between two of them."""
        self._working.acquire()
        serving = self._serving
        if not serving:
            self._working.release()
        return serving

    def thaw(self) -> None:
        """Go on."""
        self._working.release()

    def end(self, why: BaseException) -> None:
        """Take no more calls, and fail those that wait."""
        with self._turn:
            self._why = self._why or why
        waiting = []
        with suppress(queue.Empty):
            while True:
                if (call := self._calls.get_nowait()) is not None:
                    call.error = self._why
                    waiting.append(call)
        answer(waiting)
        self._calls.put(None)  # the writer may wait for the next call

    def _next(self) -> PendingCall | None:
        left = self._until - SYSTEM.steady()
        if left <= 0:
            return None
        try:
            return self._calls.get(timeout=left / limits.SECOND)
        except queue.Empty:
            return None

    def _run(self, call: PendingCall, connection: sqlite3.Connection) -> None:
        try:
            call.result = call.work(connection)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            interrupted = isinstance(error, sqlite3.OperationalError) and self._late()
            call.error = self._too_long() if interrupted else error

    def _late(self) -> bool:
        return SYSTEM.steady() >= self._until

    def _too_long(self) -> TransactionTooLong:
        return TransactionTooLong(self._limit / limits.SECOND)


class ReopenableEvent:
    """Lets everybody through until somebody shuts it; those who come then, on whatever loop, wait until it is open."""

    def __init__(self, *, shut: bool = False) -> None:
        self.shut = shut
        self._turn = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]] = deque()

    async def close(self) -> None:
        """Shut it, once it is open."""
        while True:
            with self._turn:
                if not self.shut:
                    self.shut = True
                    return
            await self.passed()

    async def passed(self) -> None:
        """Wait until it is open."""
        loop = asyncio.get_running_loop()
        while True:
            with self._turn:
                if not self.shut:
                    return
                future = loop.create_future()
                self._waiting.append((loop, future))
            await future

    def open(self) -> None:
        """Let everybody through, from any thread."""
        with self._turn:
            self.shut = False
            waiting, self._waiting = self._waiting, deque()
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)


def _wake(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_result(None)
