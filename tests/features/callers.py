"""Callers with a database connection of their own: every driver and every framework that ``within=`` knows."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from packhorse import App
from tests.conftest import room

PLACES = itertools.count()
MINE = f"mine_{room()}"  # a table of the user's own, and of this process of the run
TABLE = f"create table if not exists {MINE} (n integer primary key)"


class Transaction:
    """One transaction of a caller: writes of its own, and jobs."""

    def __init__(self, app: App, given: Any) -> None:
        self.app, self.given = app, given

    async def execute(self, sql: str) -> None:
        raise NotImplementedError

    async def write(self, number: int) -> None:
        """Write a row of the caller's own."""
        await self.execute(f"insert into {MINE} (n) values ({number})")

    async def enqueue(self, *calls: Any) -> Any:
        """Enqueue within the transaction, and answer the handle of the first."""
        return (await self.app.enqueue(*calls, within=self.given))[0]

    async def commit(self) -> None:
        raise NotImplementedError

    async def rollback(self) -> None:
        raise NotImplementedError


class Blocking(Transaction):
    """The connection of a driver whose calls block."""

    async def execute(self, sql: str) -> None:
        self.given.execute(sql)

    async def commit(self) -> None:
        self.given.commit()

    async def rollback(self) -> None:
        self.given.rollback()


class Immediate(Blocking):
    """sqlite3 without begins of its own."""

    async def commit(self) -> None:
        self.given.execute("commit")

    async def rollback(self) -> None:
        self.given.execute("rollback")


class Awaited(Transaction):
    """The connection of a driver whose calls are awaited."""

    async def execute(self, sql: str) -> None:
        await self.given.execute(sql)

    async def commit(self) -> None:
        await self.given.commit()

    async def rollback(self) -> None:
        await self.given.rollback()


class Asyncpg(Awaited):
    """asyncpg, whose transactions are objects."""

    def __init__(self, app: App, given: Any, transaction: Any) -> None:
        super().__init__(app, given)
        self._transaction = transaction

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()


class Alchemy(Blocking):
    """A Session or Connection of SQLAlchemy."""

    async def execute(self, sql: str) -> None:
        from sqlalchemy import text

        self.given.execute(text(sql))


class AsyncAlchemy(Awaited):
    """An AsyncSession or AsyncConnection of SQLAlchemy."""

    async def execute(self, sql: str) -> None:
        from sqlalchemy import text

        await self.given.execute(text(sql))


class Django(Transaction):
    """Django, in a thread of its own: its connections belong to threads, and it refuses to block a loop."""

    def __init__(self, app: App, alias: str, thread: ThreadPoolExecutor) -> None:
        from django.db import connections

        super().__init__(app, connections)
        self._alias, self._thread = alias, thread

    async def inside(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def begin(self) -> None:
        from django.db import transaction

        self._atomic = transaction.atomic(using=self._alias)
        await self.inside(self._atomic.__enter__)

    async def execute(self, sql: str) -> None:
        def run() -> None:
            with self.given[self._alias].cursor() as cursor:
                cursor.execute(sql)

        await self.inside(run)

    async def enqueue(self, *calls: Any) -> Any:
        return (await self.inside(lambda: self.app.sync.enqueue(*calls, within=self.given[self._alias])))[0]

    async def commit(self) -> None:
        await self.inside(lambda: self._atomic.__exit__(None, None, None))

    async def rollback(self) -> None:
        from django.db import transaction

        await self.inside(lambda: transaction.set_rollback(True, using=self._alias))
        await self.commit()


class Callers:
    """Opens transactions of every kind at the place of an app."""

    KINDS: ClassVar = {
        "sqlite": (
            "sqlite3", "sqlite3-immediate", "aiosqlite", "sqlalchemy-session", "sqlalchemy-connection",
            "sqlalchemy-async-session", "sqlalchemy-async-connection", "django",
        ),
        "postgres": (
            "psycopg", "psycopg-async", "asyncpg", "asyncpg-pool", "sqlalchemy-session", "sqlalchemy-connection",
            "sqlalchemy-async-session", "sqlalchemy-async-connection", "sqlalchemy-asyncpg-session",
            "sqlalchemy-asyncpg-connection", "django",
        ),
    }  # fmt: skip

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        self.path = url.removeprefix("sqlite:///")

    @asynccontextmanager
    async def open(self, app: App, name: str) -> AsyncIterator[Callable[[], Any]]:
        """Connect; what is given opens one transaction after the other."""
        way = f"_{name.replace('-', '_')}"
        async with getattr(self, way)(app) as begin:
            yield begin

    # -- SQLite by itself

    @asynccontextmanager
    async def _sqlite3(self, app: App) -> AsyncIterator[Any]:
        import sqlite3

        connection = sqlite3.connect(self.path, timeout=30)

        async def begin() -> Transaction:
            return Blocking(app, connection)

        yield begin
        connection.close()

    @asynccontextmanager
    async def _sqlite3_immediate(self, app: App) -> AsyncIterator[Any]:
        import sqlite3

        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        connection.row_factory, connection.text_factory = sqlite3.Row, bytes  # the caller's affair

        async def begin() -> Transaction:
            connection.execute("begin immediate")
            return Immediate(app, connection)

        yield begin
        connection.close()

    @asynccontextmanager
    async def _aiosqlite(self, app: App) -> AsyncIterator[Any]:
        import aiosqlite

        async with aiosqlite.connect(self.path, timeout=30) as connection:

            async def begin() -> Transaction:
                return Awaited(app, connection)

            yield begin

    # -- PostgreSQL by itself

    @asynccontextmanager
    async def _psycopg(self, app: App) -> AsyncIterator[Any]:
        import psycopg
        from psycopg.rows import dict_row

        connection = psycopg.connect(self.url, row_factory=dict_row)

        async def begin() -> Transaction:
            return Blocking(app, connection)

        yield begin
        connection.close()

    @asynccontextmanager
    async def _psycopg_async(self, app: App) -> AsyncIterator[Any]:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.url) as connection:

            async def begin() -> Transaction:
                return Awaited(app, connection)

            yield begin

    @asynccontextmanager
    async def _asyncpg(self, app: App) -> AsyncIterator[Any]:
        import asyncpg

        connection = await asyncpg.connect(self.url)

        async def begin() -> Transaction:
            transaction = connection.transaction()
            await transaction.start()
            return Asyncpg(app, connection, transaction)

        yield begin
        await connection.close()

    @asynccontextmanager
    async def _asyncpg_pool(self, app: App) -> AsyncIterator[Any]:
        import asyncpg

        async with asyncpg.create_pool(self.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:

            async def begin() -> Transaction:
                transaction = connection.transaction()
                await transaction.start()
                return Asyncpg(app, connection, transaction)

            yield begin

    # -- SQLAlchemy

    def _address(self, *drivers: str) -> str:
        plain, driver = drivers
        if self.kind == "sqlite":
            return self.url.replace("sqlite://", f"sqlite+{plain}://")
        return self.url.replace("postgresql://", f"postgresql+{driver}://")

    @asynccontextmanager
    async def _engine(self, session: bool, app: App) -> AsyncIterator[Any]:
        from sqlalchemy import create_engine
        from sqlalchemy.orm import Session

        engine = create_engine(self._address("pysqlite", "psycopg"), connect_args=self._patience())
        with Session(engine) if session else engine.connect() as connection:

            async def begin() -> Transaction:
                return Alchemy(app, connection)

            yield begin
        engine.dispose()

    def _sqlalchemy_session(self, app: App) -> Any:
        return self._engine(True, app)

    def _sqlalchemy_connection(self, app: App) -> Any:
        return self._engine(False, app)

    @asynccontextmanager
    async def _async_engine(self, session: bool, driver: str, app: App) -> AsyncIterator[Any]:
        from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

        engine = create_async_engine(self._address("aiosqlite", driver), connect_args=self._patience())
        async with AsyncSession(engine) if session else engine.connect() as connection:

            async def begin() -> Transaction:
                return AsyncAlchemy(app, connection)

            yield begin
        await engine.dispose()

    def _patience(self) -> dict[str, Any]:
        return {"timeout": 30} if self.kind == "sqlite" else {}

    def _sqlalchemy_async_session(self, app: App) -> Any:
        return self._async_engine(True, "psycopg", app)

    def _sqlalchemy_async_connection(self, app: App) -> Any:
        return self._async_engine(False, "psycopg", app)

    def _sqlalchemy_asyncpg_session(self, app: App) -> Any:
        return self._async_engine(True, "asyncpg", app)

    def _sqlalchemy_asyncpg_connection(self, app: App) -> Any:
        return self._async_engine(False, "asyncpg", app)

    # -- Django

    @asynccontextmanager
    async def _django(self, app: App) -> AsyncIterator[Any]:
        from django.db import connections

        alias = f"place_{next(PLACES)}"
        known_to_django(alias, self.kind, self.url)
        with ThreadPoolExecutor(1, thread_name_prefix="django") as thread:

            async def begin() -> Transaction:
                transaction = Django(app, alias, thread)
                await transaction.begin()
                return transaction

            yield begin
            thread.submit(lambda: connections[alias].close()).result()  # noqa: PLW0108 - each thread has its own
        del connections.settings[alias]


def django_database(kind: str, url: str) -> dict[str, Any]:
    """A database as the settings of Django say it."""
    if kind == "sqlite":
        options = {"timeout": 30, "transaction_mode": "IMMEDIATE"}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///"), "OPTIONS": options}
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


def known_to_django(alias: str, kind: str, url: str) -> None:
    """Tell Django of a database under this name."""
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True)
        django.setup()
    databases = {"default": {}, alias: django_database(kind, url)}
    connections.settings[alias] = connections.configure_settings(databases)[alias]
