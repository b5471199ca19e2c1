"""The transaction of an attempt, as its handler sees it and as the engine ends it."""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from packhorse.errors import PackhorseError, TransactionOver
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.stores.contract import Row, Store, Transaction

T = TypeVar("T")

Notes = Sequence[tuple[Lease, bytes]]  # the last progress of the attempt, if it has not reached the store
Steps = Sequence[Settlement]  # held steps with what the attempt emitted, as far as it has not reached the store


class Tx:
    """``current().tx`` of an async handler: statements that are committed with the job, or not at all.

    Placeholders are those of the database: ``?`` on SQLite, ``$1`` on PostgreSQL. Errors are those of its driver.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def execute(self, sql: str, *params: object) -> int:
        """Run a statement and answer how many rows it changed."""
        return await self._transaction.execute(sql, *params)

    async def fetch(self, sql: str, *params: object) -> list[Row]:
        """Run a statement and answer its rows; values are found by position and by name."""
        return await self._transaction.fetch(sql, *params)

    async def fetchrow(self, sql: str, *params: object) -> Row | None:
        """Run a statement and answer its first row."""
        rows = await self._transaction.fetch(sql, *params)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *params: object) -> Any:
        """Run a statement and answer the first value of its first row."""
        row = await self.fetchrow(sql, *params)
        return None if row is None else row[0]

    async def connection(self) -> Any:
        """On PostgreSQL, the connection of asyncpg itself: for cursors, copies, and ``within=``. Do not commit it."""
        return await self._transaction.connection()


class SyncTx:
    """``current().tx`` of a plain handler, which runs in a thread: the same without ``await``."""

    def __init__(self, transaction: Transaction, loop: asyncio.AbstractEventLoop) -> None:
        self._tx, self._loop = Tx(transaction), loop

    def execute(self, sql: str, *params: object) -> int:
        """Run a statement and answer how many rows it changed."""
        return waited(self._loop, self._tx.execute(sql, *params))

    def fetch(self, sql: str, *params: object) -> list[Row]:
        """Run a statement and answer its rows; values are found by position and by name."""
        return waited(self._loop, self._tx.fetch(sql, *params))

    def fetchrow(self, sql: str, *params: object) -> Row | None:
        """Run a statement and answer its first row."""
        return waited(self._loop, self._tx.fetchrow(sql, *params))

    def fetchval(self, sql: str, *params: object) -> Any:
        """Run a statement and answer the first value of its first row."""
        return waited(self._loop, self._tx.fetchval(sql, *params))


def waited(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine of the worker's loop returns, for a thread."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    except CancelledError:
        raise TransactionOver from None


class AttemptTransaction(Protocol):
    """The transaction of one attempt: what its handler is given, and whether anything was asked of it."""

    given: Any

    @property
    def begun(self) -> bool:
        """Whether there is anything to commit or to undo."""

    def abandon(self) -> Coroutine[Any, Any, None] | None:
        """What undoes it while the handler still runs, if that can be done."""


class AsyncAttemptTx(AttemptTransaction, Protocol):
    """The transaction of an attempt on the loop."""

    async def enter(self) -> None:
        """Make it ready for the handler."""

    async def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        """Write the held steps and the settlement with the notes, and commit; roll back if it is not written."""

    async def roll_back(self) -> None:
        """Undo all of it; harmless if it is over, and never an error."""


class SyncAttemptTx(AttemptTransaction, Protocol):
    """The transaction of an attempt in a thread; called in that thread alone."""

    def enter(self) -> None:
        """Make it ready for the handler."""

    def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        """Write the held steps and the settlement with the notes, and commit; roll back if it is not written."""

    def roll_back(self) -> None:
        """Undo all of it; harmless if it is over, and never an error."""


class Opens(Protocol):
    """Where the transactions of a task come from."""

    def check(self, store: Store) -> None:
        """Refuse a store that cannot be part of them."""

    def on_loop(self, store: Store, limit: int) -> AsyncAttemptTx:
        """The transaction of an attempt on the loop."""

    def in_thread(self, store: Store, limit: int, loop: asyncio.AbstractEventLoop) -> SyncAttemptTx:
        """The transaction of an attempt in a thread, beside the worker's loop."""


class FromStore:
    """Transactions of the store itself: not begun before the handler's first statement."""

    def check(self, store: Store) -> None:
        """Refuse a store that has none."""
        store.transaction(1)

    def on_loop(self, store: Store, limit: int) -> "_OnLoop":
        """The transaction of an attempt on the loop."""
        return _OnLoop(store.transaction(limit))

    def in_thread(self, store: Store, limit: int, loop: asyncio.AbstractEventLoop) -> "_InThread":
        """The transaction of an attempt in a thread."""
        return _InThread(store.transaction(limit), loop)


class _FromStore:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @property
    def begun(self) -> bool:
        return self._transaction.begun

    def abandon(self) -> Coroutine[Any, Any, None]:
        return self._undone()

    async def _undone(self) -> None:
        with suppress(PackhorseError):  # what cannot be undone now is undone by the database
            await self._transaction.roll_back()


class _OnLoop(_FromStore):
    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self.given = Tx(transaction)

    async def enter(self) -> None:
        """Nothing is opened before it is needed."""

    async def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        return await self._transaction.settle(settlement, notes, held)

    async def roll_back(self) -> None:
        await self._undone()


class _InThread(_FromStore):
    def __init__(self, transaction: Transaction, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(transaction)
        self.given, self._loop = SyncTx(transaction, loop), loop

    def enter(self) -> None:
        """Nothing is opened before it is needed."""

    def settle(self, settlement: Settlement, notes: Notes, held: Steps) -> Verdict:
        return waited(self._loop, self._transaction.settle(settlement, notes, held))

    def roll_back(self) -> None:
        waited(self._loop, self._undone())


FROM_STORE = FromStore()
