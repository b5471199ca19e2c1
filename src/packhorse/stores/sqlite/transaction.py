"""The transaction of one attempt: its statements and its settlement on the writer, which is held for so long."""

import re
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from packhorse.errors import NoTransactions, TransactionOver
from packhorse.model.lease import Settlement, Verdict
from packhorse.stores import edge
from packhorse.stores.contract import Row
from packhorse.stores.sql.steering import SPACE, refuse_steering
from packhorse.stores.sqlite.hold import Hold
from packhorse.stores.sqlite.seat import Seat
from packhorse.stores.sqlite.settle import Settling

T = TypeVar("T")

# Settings of a connection stay when a transaction is rolled back; some are made even by explaining the statement.
_SETTING = re.compile(rf"{SPACE}(PRAGMA|ATTACH|DETACH|EXPLAIN)\b", re.IGNORECASE | re.DOTALL)


class SQLiteTransaction:
    """Begins with the first statement: from there on, and for a bounded time, nobody else writes."""

    def __init__(self, seat: Seat, limit: int) -> None:
        self._seat = seat
        self._hold = Hold(limit)
        self.begun = False

    async def execute(self, sql: str, *params: object) -> int:
        """Run a statement and answer how many rows it changed."""
        self._check(sql)
        return max(0, await self._tell(lambda connection: connection.execute(sql, params).rowcount))

    async def fetch(self, sql: str, *params: object) -> list[Row]:
        """Run a statement and answer its rows."""
        self._check(sql)

        def work(connection: sqlite3.Connection) -> list[Row]:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, params).fetchall()

        return await self._tell(work)

    async def connection(self) -> object:
        """Refuse: the connection belongs to the thread of the writer."""
        raise NoTransactions(
            "on SQLite the connection stays with its own thread; use execute and fetch, or transaction=factory"
        )

    async def settle(self, settlement: Settlement) -> Verdict:
        """Write an outcome with its effects, and commit."""
        edge.settlements([settlement])
        return await self._tell(
            lambda connection: self._seat.database.merging.settle(
                connection, lambda step: Settling(step, [settlement.lease]).all([settlement])[0]
            )
        )

    async def roll_back(self) -> None:
        """Undo all of it."""
        self._hold.end(TransactionOver())
        if self.begun:
            await self._hold.left.passed()

    def _check(self, sql: str) -> None:
        refuse_steering(sql)
        if _SETTING.match(sql):
            self._hold.unclean = True

    async def _tell(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self.begun:
            self.begun = True
            try:
                await self._seat.hold(self._hold)
            except BaseException:
                self._hold.left.open()
                raise
        return await self._hold.tell(work)
