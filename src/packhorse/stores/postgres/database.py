"""The connections to a PostgreSQL server: a pool, calls that end in one of our own errors, and a listener's own line."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import asyncpg

from packhorse.errors import (
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

Row = asyncpg.Record

CONNECT = 10.0
_COMMAND = 10.0
_TRIES = 8

_DRIVER = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_LAYOUT = (
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedObjectError,
)
BROKEN = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
_REFUSED = (
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
)


class Database:
    """A pool of connections. No call relies on the state of a session, so a pooler may stand in between.

    A call runs to its end even if its caller is cancelled; what the server refuses for the sake of others
    (a deadlock, a race) is done again.
    """

    def __init__(self, url: str, *, size: int = 10, statement_cache_size: int = 100) -> None:
        self._url = url
        self._size = size
        self._cache = statement_cache_size
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._pid = 0
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def opened(self) -> bool:
        """Whether calls are taken."""
        return self._pool is not None and self._pid == os.getpid()

    async def open(self) -> None:
        """Connect; harmless if that was done."""
        if self.opened:
            return
        pool = asyncpg.create_pool(
            self._url,
            min_size=1,
            max_size=self._size,
            command_timeout=_COMMAND,
            timeout=CONNECT,
            statement_cache_size=self._cache,
            init=_prepare,
            reset=_leave,
        )
        try:
            await pool
        except _DRIVER as error:
            unreached(error)
        self._pool, self._pid = pool, os.getpid()

    async def close(self) -> None:
        """Let calls under way end, then disconnect; in a forked process the parent's connections are left alone."""
        pool, self._pool = self._pool, None
        if pool is None or self._pid != os.getpid():
            return
        if self._running:
            await asyncio.wait(self._running, timeout=_COMMAND)
        try:
            await asyncio.wait_for(pool.close(), CONNECT)
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()

    async def read(self, sql: str, *params: object) -> list[Row]:
        """The rows of a statement that changes nothing."""
        return await self._shielded(sql, params, StoreUnavailable)

    async def write(self, sql: str, *params: object) -> list[Row]:
        """The rows of a statement that changes something: if the answer is lost nobody knows whether it did."""
        return await self._shielded(sql, params, OutcomeUnknown)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A connection outside of the pool, for what takes long: a migration, a vacuum, listening."""
        try:
            connection = await _connected(self._url)
        except _DRIVER as error:
            unreached(error)
        try:
            yield connection
        except _DRIVER as error:
            _translate(error, OutcomeUnknown)
        finally:
            await _hang_up(connection)

    async def _shielded(self, sql: str, params: Sequence[object], lost: type[StoreError]) -> list[Row]:
        if self._pool is None:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        if self._pid != os.getpid():
            raise StoreClosed("The store was opened before this process was forked: open one in the child")
        task = asyncio.ensure_future(self._call(self._pool, sql, params, lost))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it too; nobody may have waited

    async def _call(
        self, pool: "asyncpg.Pool[asyncpg.Record]", sql: str, params: Sequence[object], lost: type[StoreError]
    ) -> list[Row]:
        try:
            connection = await pool.acquire(timeout=CONNECT)
        except _DRIVER as error:
            unreached(error)
        try:
            for _ in range(_TRIES - 1):
                try:
                    return await connection.fetch(sql, *params)
                except _AGAIN:
                    continue
            return await connection.fetch(sql, *params)
        except _DRIVER as error:
            _translate(error, lost)
        finally:
            await pool.release(connection)


async def _prepare(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Ids and tokens are 16 raw bytes on our side."""
    await connection.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)


async def _leave(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """No call leaves anything behind in its session: there is nothing to reset, and no round trip spent on it."""


async def _connected(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect to the end even if the caller is cancelled: given up half way, the driver leaves an error behind."""
    connecting = asyncio.ensure_future(asyncpg.connect(url, timeout=CONNECT, statement_cache_size=0))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        with contextlib.suppress(*_DRIVER):
            await _hang_up(await connecting)
        raise


async def _hang_up(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    try:
        await connection.close(timeout=CONNECT)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


def unreached(error: Exception) -> NoReturn:
    """Nothing was sent, so nothing can have happened."""
    raise StoreUnavailable(f"PostgreSQL was not reached ({_words(error)}): check the address and the server") from error


def _translate(error: Exception, lost: type[StoreError]) -> NoReturn:
    """The one place where errors of the driver become ours."""
    if isinstance(error, _LAYOUT):
        raise SchemaMismatch(
            f"The layout of the store is not this release's ({_words(error)}): run `packhorse migrate up`, "
            "or call `await store.migrate()`"
        ) from error
    if isinstance(error, asyncpg.DiskFullError):
        raise StoreFull(f"PostgreSQL has no room ({_words(error)}): free space, then repeat the call") from error
    if isinstance(error, (*_REFUSED, *_AGAIN)):
        raise StoreUnavailable(f"PostgreSQL refused the call ({_words(error)}): repeat it later") from error
    if isinstance(error, BROKEN) and not isinstance(error, ValueError):  # those are about a parameter
        raise lost(
            f"The connection to PostgreSQL broke ({_words(error)}): repeat the call with the same ids"
        ) from error
    if isinstance(error, asyncpg.PostgresError):
        raise StoreError(f"PostgreSQL failed the call ({_words(error)}): nothing was written") from error
    raise error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
