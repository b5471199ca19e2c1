"""The connections to a PostgreSQL server: a pool, calls that end in one of our own errors, and a listener's own line."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import asyncpg
from asyncpg.exceptions import ClientConfigurationError

from packhorse.errors import (
    ConfigError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from packhorse.stores.postgres.address import PostgresAddress, Urls
from packhorse.stores.postgres.connecting import (
    CLOSE_SECONDS,
    DRIVER_ERRORS,
    connect_seconds,
    connected,
    hang_up,
    keep,
    pool_of,
)
from packhorse.stores.postgres.silence import fetch

Row = asyncpg.Record
Connection = Any  # what a pool lends

WORKER_CALL_SECONDS = 4.0  # for what a worker repeats by itself: it is back soon after a way that swallowed its words
_CALL_SECONDS = 10.0
_STICKY_SECONDS = 30.0  # a connection of the pool is kept so long between calls, then the pool checks it again
_TRIES = 8

_LOGIN = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
_PARAMETER = (ClientConfigurationError, asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError)
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
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
_REFUSED = (
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.ReadOnlySQLTransactionError,
)


class DuplicateId(StoreError):
    """Nothing was written: something is there already that may be there once."""


class PostgresDatabase:
    """A pool of connections. No call relies on the state of a session, so a pooler may stand in between.

    A call runs to its end even if its caller is cancelled; what the server refuses for the sake of others
    (a deadlock, a race) is done again.
    """

    def __init__(self, address: PostgresAddress, *, lists: str, size: int = 10) -> None:
        self._address = address
        self._lists = lists
        self._size = size
        self._listen: Urls = ()
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._spare: StickyConnection | None = None
        self._pid = 0
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def opened(self) -> bool:
        """Whether calls are taken."""
        return self._pool is not None and self._pid == os.getpid()

    @property
    def listens(self) -> bool:
        """Whether there is a place to listen."""
        return bool(self._listen)

    async def open(self, *, pooled: bool) -> None:
        """Connect; harmless if that was done. Behind a pooler nothing is prepared for later calls."""
        if self.opened:
            return
        self._listen = self._address.listens(pooled=pooled)
        pool = pool_of(self._address.urls, self._prepare, pooled=pooled, size=(0, self._size), command=None, reset=keep)
        try:
            await pool
        except DRIVER_ERRORS as error:
            self._shut_out(error)
        self._pool, self._spare, self._pid = pool, StickyConnection(pool, self._begun), os.getpid()

    async def close(self) -> None:
        """Let calls under way end, then disconnect; in a forked process the parent's connections are left alone."""
        pool, spare, self._pool = self._pool, self._spare, None
        if pool is None or spare is None or self._pid != os.getpid():
            return
        spare.forget()
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=_CALL_SECONDS)
            with contextlib.suppress(*DRIVER_ERRORS):
                await asyncio.wait_for(pool.close(), CLOSE_SECONDS)
        finally:
            pool.terminate()  # whatever is left, also if nobody waits for this any more

    async def read(self, sql: str, *params: object) -> list[Row]:
        """The rows of a statement that changes nothing."""
        return await self._shielded(sql, params, StoreUnavailable)

    async def write(self, sql: str, *params: object, timeout: float = _CALL_SECONDS) -> list[Row]:
        """The rows of a statement that changes something: if the answer is lost nobody knows whether it did."""
        return await self._shielded(sql, params, OutcomeUnknown, timeout)

    @asynccontextmanager
    async def alone(
        self, *, listening: bool = False, limit: float = _CALL_SECONDS
    ) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A connection outside of the pool, for what takes long: a migration, a vacuum, listening.

        Even that has a limit for each statement: a line that swallows words would be listened to for ever.
        """
        try:
            connection = await connected(self._listen if listening else self._address.urls, limit)
        except DRIVER_ERRORS as error:
            self._shut_out(error)
        try:
            yield connection
        except DRIVER_ERRORS as error:
            _translate(error, OutcomeUnknown)
        finally:
            await hang_up(connection)

    def _shut_out(self, error: Exception) -> NoReturn:
        """A wrong login or database is a ConfigError at the first connection; later it may be temporary."""
        if isinstance(error, _PARAMETER):  # its text quotes what may be part of a password
            raise (StoreUnavailable if self.opened else ConfigError)(
                "The address has a parameter that PostgreSQL or its driver does not take: quote & in a password as %26"
            ) from None
        if isinstance(error, _LOGIN) and not self.opened:
            raise ConfigError(
                f"PostgreSQL refused the login ({_words(error)}): check user, password and database in the address"
            ) from error
        unreached(error)

    async def _prepare(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Ids and tokens are 16 raw bytes on our side.

        The driver looks up what lists are, slowly unless it changes a setting of the session: what it changes is
        undone, and behind a pooler all of it meets one session.
        """
        await connection.set_type_codec("uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes)
        transaction = connection.transaction()
        await transaction.start()
        await connection.fetch(self._lists, *([] for _ in range(6)))
        await transaction.rollback()

    async def _shielded(
        self, sql: str, params: Sequence[object], lost: type[StoreError], timeout: float = _CALL_SECONDS
    ) -> list[Row]:
        if self._pool is None or self._spare is None:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        if self._pid != os.getpid():
            raise StoreClosed("The store was opened before this process was forked: open one in the child")
        return await asyncio.shield(self._begun(self._call(self._pool, self._spare, sql, params, lost, timeout)))

    def _begun(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it too; nobody may have waited

    async def _call(
        self,
        pool: "asyncpg.Pool[asyncpg.Record]",
        spare: "StickyConnection",
        sql: str,
        params: Sequence[object],
        lost: type[StoreError],
        timeout: float,
    ) -> list[Row]:
        era, sound = spare.era, False
        try:
            connection = await spare.lent(timeout, max(timeout, connect_seconds(self._address.urls)))
        except DRIVER_ERRORS as error:
            unreached(error)
        try:
            rows = await _rows(connection, sql, params, timeout)
            sound = True
            return rows
        except asyncpg.ReadOnlySQLTransactionError as error:
            spare.forget()  # this server is no primary any more: look for the one that is
            await pool.expire_connections()
            _translate(error, lost)
        except DRIVER_ERRORS as error:
            if isinstance(error, asyncpg.InternalClientError):
                connection.terminate()  # its session was ended, and the driver has not understood that
            _translate(error, lost)
        finally:
            spare.back(connection, timeout, keep=sound and era == spare.era)


class StickyConnection:
    """Connections that are kept between calls: to borrow one from the pool and give it back would take as long as a call.

    One for each limit of time, so that what a worker repeats by itself stays in one session: the first call of a
    function in a session waits for its plans, longer than for anything else. The pool alone knows how many connections
    there may be, and how long each may live. So nothing is kept while somebody waits for the pool, nor for long.
    """

    def __init__(
        self, pool: "asyncpg.Pool[asyncpg.Record]", begin: Callable[[Coroutine[Any, Any, Any]], object]
    ) -> None:
        self.era = 0  # what was lent in an era that is over is not kept
        self._pool, self._begin = pool, begin
        self._kept: dict[float, Connection] = {}
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    async def lent(self, limit: float, timeout: float) -> Connection:
        """The connection that is kept for calls of this limit, or one of the pool's; if that has none, any that is kept."""
        connection = self._kept.pop(limit, None)
        if connection is None and self._kept and self._exhausted():
            connection = self._kept.popitem()[1]
        if connection is not None:
            if _there(connection):
                return connection
            self.back(connection, limit, keep=False)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=timeout)
        finally:
            self._waiting -= 1

    def back(self, connection: Connection, limit: float, *, keep: bool) -> None:
        """Have a connection again."""
        if not keep or limit in self._kept or self._waiting:
            # The driver asks the server to cancel what took too long, and waits for that: nobody else has to.
            self._begin(self._pool.release(connection, timeout=CLOSE_SECONDS))
            return
        self._kept[limit] = connection
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_STICKY_SECONDS, self.forget)

    def forget(self) -> None:
        """Keep nothing that is lent now."""
        self.era += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._kept:
            limit, connection = self._kept.popitem()
            self.back(connection, limit, keep=False)

    def _exhausted(self) -> bool:
        return self._pool.get_idle_size() == 0 and self._pool.get_size() == self._pool.get_max_size()


def _there(connection: Connection) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:  # it broke, and is back in its pool by itself
        return False


async def _rows(connection: Connection, sql: str, params: Sequence[object], timeout: float) -> list[Row]:
    for _ in range(_TRIES - 1):
        with contextlib.suppress(*_AGAIN):
            return await fetch(connection, sql, params, timeout)
    return await fetch(connection, sql, params, timeout)


def unreached(error: Exception) -> NoReturn:
    """Nothing was sent, so nothing can have happened."""
    if isinstance(error, asyncpg.QueryCanceledError):
        _translate(error, StoreUnavailable)
    raise StoreUnavailable(f"PostgreSQL was not reached ({_words(error)}): check the address and the server") from error


def _translate(error: Exception, lost: type[StoreError]) -> NoReturn:
    """The one place where errors of the driver become ours."""
    if isinstance(error, _LAYOUT):
        raise SchemaMismatch(
            f"The layout of the store does not fit this release ({_words(error)}): run `packhorse migrate up`, "
            "or call `await store.migrate()`"
        ) from error
    if isinstance(error, asyncpg.DiskFullError):
        raise StoreFull(f"PostgreSQL has no space ({_words(error)}): free space, then repeat the call") from error
    if isinstance(error, asyncpg.QueryCanceledError):
        raise StoreUnavailable(
            f"PostgreSQL cancelled the call ({_words(error)}): repeat it later; if the role has a statement_timeout, "
            "raise it to some seconds"
        ) from error
    if isinstance(error, (*_REFUSED, *_AGAIN)):
        raise StoreUnavailable(f"PostgreSQL refused the call ({_words(error)}): repeat it later") from error
    if isinstance(error, BROKEN) and not isinstance(error, ValueError):  # those are about a parameter
        raise lost(
            f"The connection to PostgreSQL broke ({_words(error)}): repeat the call with the same ids"
        ) from error
    if isinstance(error, asyncpg.UniqueViolationError):
        raise DuplicateId(f"PostgreSQL already has this ({_words(error)}): nothing was written") from error
    if isinstance(error, asyncpg.PostgresError):
        raise StoreError(f"PostgreSQL failed the call ({_words(error)}): nothing was written") from error
    raise error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
