"""The caller's own connection, session or transaction, whoever made it: how work of a store is run on it.

Each is known by the name of its class, so that nothing is imported that is not there. What blocks runs on the calling
thread, where the caller's connection belongs, also below an event loop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from packhorse.errors import NoTransaction, OtherDatabase, UnknownConnection
from packhorse.stores.contract import Routine, Statement, Work

T = TypeVar("T")

_MISSING = {"3F000", "42883", "42P01"}  # no such schema, function, table
_TO_BE_PREPARED = "SET LOCAL packhorse.notify = off"  # a transaction with a NOTIFY in it cannot be prepared
_BEGIN = "begin a transaction first, for a connection that commits by itself has nothing to be part of"


class SyncAdapter(Protocol):
    """A connection whose calls block."""

    def check(self) -> None:
        """Refuse it if it commits every statement by itself."""

    def run(self, work: Work[T]) -> T:
        """Run work within its transaction."""


class AsyncAdapter(Protocol):
    """A connection whose calls are awaited."""

    async def check(self) -> None:
        """Refuse it if it commits every statement by itself."""

    async def run(self, work: Work[T]) -> T:
        """Run work within its transaction."""


def blocking(connection: object) -> SyncAdapter:
    """The connection, for code without an event loop."""
    for kind, adapter in _BLOCKING.items():
        if kind in _kinds(connection):
            return adapter(connection)
    if any(kind in _kinds(connection) for kind in _AWAITED):
        raise UnknownConnection(
            connection, "it belongs to an event loop: `await task.using(within=…).enqueue(…)` there"
        )
    raise UnknownConnection(connection)


async def run(connection: object, work: Work[T]) -> T:
    """Run work on a connection of either kind."""
    if (own := _awaited(connection)) is not None:
        return await own.run(work)
    return blocking(connection).run(work)


def _awaited(connection: object) -> AsyncAdapter | None:
    for kind, adapter in _AWAITED.items():
        if kind in _kinds(connection):
            return adapter(connection)
    return None


def _kinds(connection: object) -> set[str]:
    """The names of its classes, each with the package it comes from."""
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(connection).__mro__}


def _routine(work: Work[T]) -> Routine[T]:
    if isinstance(work, Statement):
        raise OtherDatabase("The connection leads to SQLite, the store is on PostgreSQL")
    return work


def _statement(work: Work[T]) -> Statement[T]:
    if isinstance(work, Routine):
        raise OtherDatabase("The connection leads to another database, the store is a file of SQLite")
    return work


def _formatted(statement: Statement[Any]) -> tuple[str, tuple[str]]:
    """The statement for drivers that write a parameter as %s."""
    return statement.text.replace("%", "%%").replace("$1", "%s"), (statement.value,)


def _numbered(statement: Statement[Any]) -> tuple[str, tuple[str]]:
    return statement.text, (statement.value,)


@contextmanager
def _refusing() -> Iterator[None]:
    """Errors of the driver stay what they are, for the transaction is the caller's; but no store there is ours to say."""
    try:
        yield
    except Exception as error:
        at: BaseException | None = error
        while at is not None:
            if (getattr(at, "sqlstate", None) or getattr(at, "pgcode", None)) in _MISSING:
                raise OtherDatabase(f"The connection leads to a database without this store ({at})") from error
            at = getattr(at, "orig", None) or at.__cause__
        raise


class _Given:
    def __init__(self, connection: Any) -> None:
        self._connection = connection


class _SQLite(_Given):
    def check(self) -> None:
        _check_sqlite(self._connection)

    def run(self, work: Work[T]) -> T:
        routine = _routine(work)
        self.check()
        return routine.run(self._connection)


class _AioSQLite(_Given):
    async def check(self) -> None:
        _check_sqlite(self._connection._conn)

    async def run(self, work: Work[T]) -> T:
        # There is no public way to its thread that lets several statements run without others between them.
        routine, connection = _routine(work), self._connection
        await self.check()
        done: T = await connection._execute(routine.run, connection._conn)
        return done


def _check_sqlite(connection: Any) -> None:
    """Whether no transaction begins with the first write; since Python 3.12 there are two ways to say so."""
    commits = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    if commits and not connection.in_transaction:
        raise NoTransaction("execute BEGIN IMMEDIATE before, and COMMIT after")


class _Psycopg(_Given):
    def check(self) -> None:
        _check_psycopg(self._connection)

    def run(self, work: Work[T]) -> T:
        statement = _statement(work)
        self.check()
        with _refusing(), self._connection.cursor(row_factory=_first) as cursor:
            if _in_two_phases(self._connection):
                cursor.execute(_TO_BE_PREPARED)
            cursor.execute(*_for_psycopg(cursor, statement))
            answer = cursor.fetchone()
        return statement.read(answer)


class _AsyncPsycopg(_Given):
    async def check(self) -> None:
        _check_psycopg(self._connection)

    async def run(self, work: Work[T]) -> T:
        statement = _statement(work)
        await self.check()
        with _refusing():
            async with self._connection.cursor(row_factory=_first) as cursor:
                if _in_two_phases(self._connection):
                    await cursor.execute(_TO_BE_PREPARED)
                await cursor.execute(*_for_psycopg(cursor, statement))
                answer = await cursor.fetchone()
        return statement.read(answer)


def _in_two_phases(connection: Any) -> bool:
    """Whether a transaction is to be prepared. psycopg keeps that to itself; a release that has no such attribute is not asked."""
    return getattr(connection, "_tpc", None) is not None


def _first(_cursor: object) -> Callable[[Any], Any]:
    """Rows as their only value, whatever the connection makes of them."""
    return lambda values: values[0]


def _for_psycopg(cursor: Any, statement: Statement[Any]) -> tuple[str, tuple[str]]:
    """The statement with the placeholders that the connection's own class of cursors takes."""
    raw = _kinds(cursor) & {"psycopg.RawCursor", "psycopg.AsyncRawCursor"}
    return _numbered(statement) if raw else _formatted(statement)


def _check_psycopg(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == 0:  # idle
        raise NoTransaction(f"use connection.transaction(), or {_BEGIN}")


class _Asyncpg(_Given):
    async def check(self) -> None:
        if not self._connection.is_in_transaction():
            raise NoTransaction(f"use connection.transaction(): {_BEGIN}")

    async def run(self, work: Work[T]) -> T:
        statement = _statement(work)
        await self.check()
        with _refusing():
            answer = await self._connection.fetchval(statement.text, statement.value)
        return statement.read(answer)


class _Alchemy(_Given):
    def check(self) -> None:
        connection = self._connection
        if not connection.in_transaction():
            connection.begin()
        if connection.dialect.name == "sqlite":
            blocking(_driver(connection)).check()
        else:
            _check_alchemy(connection)

    def run(self, work: Work[T]) -> T:
        self.check()
        if self._connection.dialect.name == "sqlite":
            return blocking(_driver(self._connection)).run(work)
        return _executed(self._connection, _statement(work))


class _AlchemySession(_Given):
    def check(self) -> None:
        _Alchemy(self._connection.connection()).check()

    def run(self, work: Work[T]) -> T:
        return _Alchemy(self._connection.connection()).run(work)


class _AsyncAlchemy(_Given):
    async def check(self) -> None:
        connection = self._connection
        if not connection.in_transaction():
            await connection.begin()
        if connection.dialect.name == "sqlite":
            await _check_either(await connection.run_sync(_driver))
        else:
            await connection.run_sync(_check_alchemy)

    async def run(self, work: Work[T]) -> T:
        await self.check()
        if self._connection.dialect.name == "sqlite":
            return await run(await self._connection.run_sync(_driver), work)
        done: T = await self._connection.run_sync(_executed, _statement(work))
        return done


class _AsyncAlchemySession(_Given):
    async def check(self) -> None:
        await _AsyncAlchemy(await self._connection.connection()).check()

    async def run(self, work: Work[T]) -> T:
        return await _AsyncAlchemy(await self._connection.connection()).run(work)


async def _check_either(connection: object) -> None:
    if (own := _awaited(connection)) is not None:
        await own.check()
    else:
        blocking(connection).check()


def _driver(connection: Any) -> Any:
    """The connection below SQLAlchemy's."""
    return connection.connection.driver_connection


def _check_alchemy(connection: Any) -> None:
    if getattr(connection.connection.dbapi_connection, "autocommit", False) is True:
        raise NoTransaction(f"its isolation level is AUTOCOMMIT; {_BEGIN}")


def _executed(connection: Any, statement: Statement[T]) -> T:
    """What a statement answers, executed by SQLAlchemy itself: some of its drivers begin a transaction only then."""
    numbered = connection.dialect.paramstyle == "numeric_dollar"
    with _refusing():
        if "sqlalchemy.TwoPhaseTransaction" in _kinds(connection.get_transaction()):
            connection.exec_driver_sql(_TO_BE_PREPARED)
        answer = connection.exec_driver_sql(*(_numbered if numbered else _formatted)(statement)).scalar_one()
    return statement.read(answer)


class _Django(_Given):
    def check(self) -> None:
        if self._connection.get_autocommit():
            raise NoTransaction(f"use transaction.atomic(): {_BEGIN}")

    def run(self, work: Work[T]) -> T:
        connection = self._connection
        self.check()
        connection.validate_no_broken_transaction()
        if connection.vendor == "sqlite":
            connection.ensure_connection()
            return blocking(connection.connection).run(work)
        statement = _statement(work)
        with _refusing(), connection.cursor() as cursor:
            cursor.execute(*_formatted(statement))
            [answer] = cursor.fetchone()
        return statement.read(answer)


_BLOCKING: dict[str, Callable[[Any], SyncAdapter]] = {
    "sqlite3.Connection": _SQLite,
    "psycopg.Connection": _Psycopg,
    "sqlalchemy.Connection": _Alchemy,
    "sqlalchemy.Session": _AlchemySession,
    "sqlalchemy.scoped_session": _AlchemySession,
    "django.BaseDatabaseWrapper": _Django,
    "django.ConnectionProxy": _Django,
}
_AWAITED: dict[str, Callable[[Any], AsyncAdapter]] = {
    "aiosqlite.Connection": _AioSQLite,
    "psycopg.AsyncConnection": _AsyncPsycopg,
    "asyncpg.Connection": _Asyncpg,
    "asyncpg.PoolConnectionProxy": _Asyncpg,
    "sqlalchemy.AsyncConnection": _AsyncAlchemy,
    "sqlalchemy.AsyncSession": _AsyncAlchemySession,
    "sqlalchemy.async_scoped_session": _AsyncAlchemySession,
}
