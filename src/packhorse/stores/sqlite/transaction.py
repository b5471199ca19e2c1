"""The transaction of one attempt: its statements and its settlement on the writer, which is held for so long."""

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from packhorse.errors import NoTransactions, TransactionOver
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores import edge
from packhorse.stores.contract import Row
from packhorse.stores.sql.steering import SPACE, refuse_steering
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.held_writer import HeldWriter
from packhorse.stores.sqlite.settle import SettlementWriter, keep_notes
from packhorse.stores.sqlite.unit_of_work import UnitOfWork

T = TypeVar("T")

# Settings of a connection stay when a transaction is rolled back; some are made even by explaining the statement.
_SETTING = re.compile(rf"{SPACE}(PRAGMA|ATTACH|DETACH|EXPLAIN)\b", re.IGNORECASE | re.DOTALL)


class SQLiteTransaction:
    """Begins with the first statement: from there on, and for a bounded time, nobody else writes."""

    def __init__(self, handle: StoreHandle, limit: int) -> None:
        self._handle = handle
        self._hold = HeldWriter(limit)
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

    async def settle(
        self, settlement: Settlement, notes: Sequence[tuple[Lease, bytes]] = (), held: Sequence[Settlement] = ()
    ) -> Verdict:
        """Write held steps and an outcome with their effects, and commit."""
        edge.settlements([settlement])
        edge.notes(notes)
        given = [*held, settlement]

        def work(step: UnitOfWork) -> Verdict:
            keep_notes(step, notes)
            return SettlementWriter(step, [one.lease for one in given]).all(given)[-1]

        return await self._tell(lambda connection: self._handle.database.write_batch.settle(connection, work))

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
                await self._handle.hold(self._hold)
            except BaseException:
                self._hold.left.open()
                raise
        return await self._hold.tell(work)
