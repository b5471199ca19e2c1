"""A store's handle on the shared SQLiteDatabase: several stores of one process use one writer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from sqlite3 import Connection
from typing import TypeVar

from packhorse.errors import StoreClosed
from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.database import SQLiteDatabase
from packhorse.stores.sqlite.held_writer import HeldWriter
from packhorse.stores.sqlite.notices import EVENTS
from packhorse.stores.sqlite.unit_of_work import UnitOfWork

T = TypeVar("T")


class StoreHandle:
    """Passes calls on while it is open; the last handle to close stops the database."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self.database = database
        self._is_open = False

    async def open(self, check: Callable[[Connection | None], None]) -> None:
        """Open the database if it is not open yet; ``check`` may refuse its layout."""
        await asyncio.to_thread(self._connect, check)
        if not self._is_open:
            self.database.start()
            self._is_open = True

    def _connect(self, check: Callable[[Connection | None], None]) -> None:
        # By looking only: the caller may be in a transaction that has written, and would wait here for itself.
        self.database.connect()
        self.database.look(check)

    async def close(self) -> None:
        """Refuse calls from now on."""
        taken, self._is_open = self._is_open, False
        if taken:
            await self.database.stop()
        else:
            self.database.forget()

    async def write(
        self,
        work: Callable[[UnitOfWork], T],
        *,
        skip: Callable[[UnitOfWork], T | None] | None = None,
        urgent: bool = False,
    ) -> T:
        """Run a verb in a transaction."""
        self._check()
        return await self.database.write(work, skip=skip, urgent=urgent)

    async def read(self, work: Callable[[UnitOfWork], T]) -> T:
        """Run a look in a snapshot of its own."""
        self._check()
        return await self.database.read(work)

    async def hold(self, hold: HeldWriter) -> None:
        """Let an attempt have the writer when its turn has come."""
        self._check()
        await self.database.hold(hold)

    def listen(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for."""
        return self.database.wakes.listen(topic)

    def listen_for_events(self) -> AsyncGenerator[None, None]:
        """Yield at once, and whenever streams may have new events."""
        return self.database.wakes.listen(EVENTS, at_once=True)

    def _check(self) -> None:
        if not self._is_open:
            raise StoreClosed("The store is not open: call `await store.open()` first")
