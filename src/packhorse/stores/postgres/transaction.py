"""The transaction of one attempt: a connection of its own for as long as it is open, of which there are few."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg

from packhorse.errors import OutcomeUnknown, StoreClosed, StoreUnavailable, TransactionOver
from packhorse.model.lease import Lease, Settlement, Verdict, bounded_parts
from packhorse.stores.contract import Row, Statement
from packhorse.stores.postgres.address import Urls
from packhorse.stores.postgres.connecting import keep, pool_of
from packhorse.stores.postgres.database import BROKEN, unreached
from packhorse.stores.postgres.within import PostgresWithin
from packhorse.stores.sql.statements import Statements
from packhorse.stores.sql.steering import refuse_steering

T = TypeVar("T")
Connection = Any  # what a pool lends

MAX_CONNECTIONS = 8
STATEMENT_SECONDS = 30.0
ROLLBACK_SECONDS = 5.0


class TransactionPool:
    """Connections for transactions, apart from those for everything else; whoever comes when all are lent waits.

    What a handler did to its session does not meet the next one: it is reset, or closed where that cannot be.
    """

    def __init__(self, urls: Urls, statements: Statements) -> None:
        self._urls, self._statements = urls, statements
        self._pooled = False
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._pid = 0
        self._opening = asyncio.Lock()
        self._ending: set[asyncio.Task[Any]] = set()
        self._closed = False

    def open(self, *, pooled: bool) -> None:
        """Lend from now on; there is no connection before the first is wanted."""
        self._closed, self._pooled = False, pooled

    async def lend(self) -> Connection:
        """A connection, once one is free."""
        if self._closed or (self._pool is not None and self._pid != os.getpid()):
            raise StoreClosed("The store is not open here: call `await store.open()` first")
        if self._pool is None:
            self._pid = os.getpid()
            self._pool = pool_of(
                self._urls,
                _plain,
                pooled=self._pooled,
                size=(0, MAX_CONNECTIONS),
                command=STATEMENT_SECONDS,
                reset=keep,
            )
        try:
            async with self._opening:
                await self._pool  # makes it ready, the first time
            acquiring = asyncio.ensure_future(self._pool.acquire())
            try:
                return await asyncio.shield(acquiring)
            except asyncio.CancelledError:  # given up half way, the driver would leave an error behind
                acquiring.add_done_callback(self._given_up)
                raise
        except BROKEN as error:
            unreached(error)

    def _given_up(self, acquiring: "asyncio.Future[Connection]") -> None:
        if not acquiring.cancelled() and acquiring.exception() is None:
            self._begun(self.take_back(acquiring.result(), sound=True))

    async def reset_before_commit(self, connection: Connection) -> None:
        """Behind a pooler, reset the session within the transaction: after it another client has the session."""
        if self._pooled:
            await connection.execute(self._statements.reset_settings + self._statements.reset_pooled)

    async def reset_with_rollback(self, connection: Connection) -> None:
        """Behind a pooler, roll back and reset the session in one message: settings are undone then, and locks are not."""
        if self._pooled:
            await connection.execute(self._statements.roll_back + self._statements.reset_pooled)

    async def take_back(self, connection: Connection, *, sound: bool, spent: bool = False) -> None:
        """Have a connection again, or close a spent one; one that broke is back in its pool by itself."""
        pool = self._pool
        with suppress(*BROKEN, asyncpg.PostgresError):
            if sound and pool is not None:
                if spent or not await self._reset(connection):
                    await connection.close(timeout=ROLLBACK_SECONDS)
                else:
                    await pool.release(connection, timeout=ROLLBACK_SECONDS)
                return
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
            if pool is not None:
                await pool.release(connection)

    async def _reset(self, connection: Connection) -> bool:
        """Whether the next transaction finds the session as if it were new."""
        if not self._pooled:
            try:
                await connection.execute(
                    self._statements.reset_settings + self._statements.reset_session, timeout=ROLLBACK_SECONDS
                )
            except asyncpg.RaiseError:
                return False
        return True

    async def to_its_end(self, ending: Coroutine[Any, Any, T]) -> T:
        """Do something to its end, also if the caller is cancelled."""
        return await asyncio.shield(self._begun(ending))

    def _begun(self, ending: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it too; nobody may have waited

    async def close(self) -> None:
        """Let transactions that are about to end do so; what is open then is rolled back by the server."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is None or self._pid != os.getpid():
            return
        if self._ending:
            await asyncio.wait(self._ending, timeout=STATEMENT_SECONDS)
        try:
            with suppress(*BROKEN, asyncpg.PostgresError):
                await asyncio.wait_for(pool.close(), ROLLBACK_SECONDS)
        finally:
            pool.terminate()  # whatever is left, also if the caller is cancelled


class PostgresTransaction:
    """Begins with the first statement. Statements given at once run one after the other."""

    def __init__(self, pool: TransactionPool, within: PostgresWithin) -> None:
        self._transaction_pool, self._within = pool, within
        self._connection: Connection | None = None
        self._running: asyncio.Task[Any] | None = None
        self._turn = asyncio.Lock()
        self._over = False
        self._given_out = False
        self.begun = False

    async def execute(self, sql: str, *params: object) -> int:
        """Run a statement and answer how many rows it changed."""
        refuse_steering(sql)

        async def work(connection: Connection) -> int:
            if params:
                return _count(await connection.execute(sql, *params))
            statement = await connection.prepare(
                sql, name=""
            )  # sent plain, it might be several, with an end among them
            await statement.fetch()
            return _count(statement.get_statusmsg())

        return await self._run(work)

    async def fetch(self, sql: str, *params: object) -> list[Row]:
        """Run a statement and answer its rows."""
        refuse_steering(sql)
        return await self._run(lambda connection: connection.fetch(sql, *params))

    async def connection(self) -> object:
        """The connection itself; it is not to be committed, and is closed after the attempt: its driver has settings too."""

        async def itself(connection: Connection) -> Connection:
            self._given_out = True
            return connection

        return await self._run(itself)

    async def settle(
        self, settlement: Settlement, notes: Sequence[tuple[Lease, bytes]] = (), held: Sequence[Settlement] = ()
    ) -> Verdict:
        """Write held steps and an outcome with their effects, and commit."""
        *before, last = bounded_parts([*held, settlement])
        statements = [*(self._within.settle(part) for part in before), self._within.settle(last, notes)]
        return await self._transaction_pool.to_its_end(self._settle(statements))

    async def roll_back(self) -> None:
        """Undo all of it; a statement that runs is given up."""
        self._over = True
        if self._running is not None:
            self._running.cancel()
        await self._transaction_pool.to_its_end(self._undo())

    async def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        self.begun = True
        async with self._turn:
            if self._over:
                raise TransactionOver
            self._running = asyncio.ensure_future(self._do(work))
            try:
                return await self._running  # type: ignore[no-any-return]
            finally:
                self._running = None

    async def _do(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await work(await self._opened())

    async def _opened(self) -> Connection:
        if self._connection is None:
            connection = await self._transaction_pool.lend()
            self._transaction = connection.transaction()
            try:
                await self._transaction.start()
            except BaseException:
                await self._transaction_pool.to_its_end(self._transaction_pool.take_back(connection, sound=False))
                raise
            self._connection = connection
        return self._connection

    async def _settle(self, statements: Sequence[Statement[tuple[Verdict, ...]]]) -> Verdict:
        async with self._turn:
            if self._over:
                raise TransactionOver
            self._over = True
            connection = await self._opened()
            try:
                if (
                    not connection.is_in_transaction()
                ):  # ended by hand: what it wrote is written, and the job is not done
                    raise TransactionOver
                for statement in statements:
                    verdicts = statement.read(await connection.fetchval(statement.text, statement.value))
                verdict = verdicts[-1]
            except BROKEN as error:
                await self._leave(sound=False)
                raise StoreUnavailable(f"The connection to PostgreSQL broke ({error}): nothing was written") from error
            except BaseException:
                await self._roll_back()
                raise
            if verdict is Verdict.WRITTEN:
                await self._commit()
            else:
                await self._roll_back()
            return verdict

    async def _commit(self) -> None:
        try:
            await self._transaction_pool.reset_before_commit(self._connection)
            await self._transaction.commit()
        except BROKEN as error:
            await self._leave(sound=False)
            raise OutcomeUnknown(f"The connection to PostgreSQL broke while it committed ({error})") from error
        except BaseException:  # refused, perhaps by a constraint that was put off: nothing is written
            if self._connection is not None and self._connection.is_in_transaction():
                await self._roll_back()
            else:
                await self._leave(sound=True)
            raise
        await self._leave(sound=True)

    async def _undo(self) -> None:
        async with self._turn:
            await self._roll_back()

    async def _roll_back(self) -> None:
        if self._connection is None:
            return
        try:
            async with asyncio.timeout(ROLLBACK_SECONDS):
                await self._transaction_pool.reset_with_rollback(self._connection)
                await self._transaction.rollback()
        except (*BROKEN, asyncpg.PostgresError):
            await self._leave(sound=False)
        else:
            await self._leave(sound=True)

    async def _leave(self, *, sound: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._transaction_pool.take_back(connection, sound=sound, spent=self._given_out)


async def _plain(_connection: Connection) -> None:
    """A connection for the user's own statements is as the driver made it."""


def _count(status: str) -> int:
    """How many rows a statement changed: the last word of what the server says of it."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdigit() and not status.startswith("SELECT") else 0
