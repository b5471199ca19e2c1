"""A place at the database: several stores of one process share one writer, each opened and closed by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from sqlite3 import Connection
from typing import TypeVar

from packhorse.errors import StoreClosed
from packhorse.stores.contract import Topic
from packhorse.stores.sqlite.database import Database
from packhorse.stores.sqlite.hold import Hold
from packhorse.stores.sqlite.step import Step

T = TypeVar("T")


class Seat:
    """Lets calls through while it is taken. The database stops when the last one is left."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._taken = False

    async def take(self, check: Callable[[Connection | None], None]) -> None:
        """Open the database, or join those who use it; ``check`` may refuse its layout."""
        await asyncio.to_thread(self._open, check)
        if not self._taken:
            self.database.start()
            self._taken = True

    def _open(self, check: Callable[[Connection | None], None]) -> None:
        # By looking only: the caller may be in a transaction that has written, and would wait here for itself.
        self.database.connect()
        self.database.look(check)

    async def leave(self) -> None:
        """Refuse calls from now on."""
        taken, self._taken = self._taken, False
        if taken:
            await self.database.stop()
        else:
            self.database.forget()

    async def write(
        self, work: Callable[[Step], T], *, skip: Callable[[Step], T | None] | None = None, urgent: bool = False
    ) -> T:
        """Run a verb in a transaction."""
        self._check()
        return await self.database.write(work, skip=skip, urgent=urgent)

    async def read(self, work: Callable[[Step], T]) -> T:
        """Run a look in a snapshot of its own."""
        self._check()
        return await self.database.read(work)

    async def hold(self, hold: Hold) -> None:
        """Let an attempt have the writer when its turn has come."""
        self._check()
        await self.database.hold(hold)

    def listen(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for."""
        return self.database.wakes.listen(topic)

    def _check(self) -> None:
        if not self._taken:
            raise StoreClosed("The store is not open: call `await store.open()` first")
