"""Sessions and connections that a handler can write in: every kind that ``transaction=`` takes, at the place of a store."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from packhorse import current
from tests.features.callers import MINE, known_to_django

PLACES = itertools.count()
Handler = Callable[..., Any]


class Factories:
    """Answers, by name, a factory and a handler that writes its number with what the factory made."""

    KINDS: ClassVar = {
        "sqlite": ("sqlite3", "aiosqlite", "session", "begin", "connection", "async_session", "django"),
        "postgres": (
            "psycopg", "async_psycopg", "asyncpg", "asyncpg_pool", "session", "begin", "connection", "async_session",
            "django",
        ),
    }  # fmt: skip

    COMMITTING: ClassVar = {
        "sqlite": ("sqlite3", "aiosqlite", "session", "begin", "connection", "async_session", "django"),
        "postgres": ("psycopg", "async_psycopg", "session", "begin", "connection", "async_session", "django"),
    }

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url, self.path = kind, url, url.removeprefix("sqlite:///")
        self._alone: dict[str, Any] = {}  # what else is given to a driver or an engine
        self._closing: list[Callable[[], Any]] = []

    async def of(self, name: str) -> tuple[Callable[[], Any], Handler]:
        """A factory and a handler for it."""
        made: tuple[Callable[[], Any], Handler] = await getattr(self, f"_{name}")()
        return made

    async def committing(self, name: str) -> tuple[Callable[[], Any], Handler]:
        """A factory of what commits every statement by itself, and a handler for it."""
        if name == "django":
            return await self._django_alone()
        driver = {"isolation_level": None} if self.kind == "sqlite" else {"autocommit": True}
        self._alone = driver if "sql" in name or "psycopg" in name else {"isolation_level": "AUTOCOMMIT"}
        return await self.of(name)

    async def close(self) -> None:
        for close in self._closing:
            closed = close()
            if hasattr(closed, "__await__"):
                await closed

    # -- drivers

    async def _sqlite3(self) -> Any:
        import sqlite3

        return lambda: sqlite3.connect(self.path, timeout=30, **self._alone), plainly

    async def _aiosqlite(self) -> Any:
        import aiosqlite

        return lambda: aiosqlite.connect(self.path, timeout=30, **self._alone), asynchronously

    async def _psycopg(self) -> Any:
        import psycopg

        return lambda: psycopg.connect(self.url, **self._alone), plainly

    async def _async_psycopg(self) -> Any:
        import psycopg

        return lambda: psycopg.AsyncConnection.connect(self.url, **self._alone), asynchronously

    async def _asyncpg(self) -> Any:
        import asyncpg

        return lambda: asyncpg.connect(self.url), asynchronously

    async def _asyncpg_pool(self) -> Any:
        import asyncpg

        pool = await asyncpg.create_pool(self.url, min_size=1, max_size=2)
        self._closing.append(pool.close)
        return pool.acquire, asynchronously

    # -- SQLAlchemy

    def _engine(self) -> Any:
        from sqlalchemy import create_engine

        address = self.url.replace("sqlite://", "sqlite+pysqlite://").replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(address, **self._alone)
        self._closing.append(engine.dispose)
        return engine

    async def _session(self) -> Any:
        from sqlalchemy.orm import sessionmaker

        return sessionmaker(self._engine()), by_sqlalchemy

    async def _begin(self) -> Any:
        from sqlalchemy.orm import sessionmaker

        return sessionmaker(self._engine()).begin, by_sqlalchemy

    async def _connection(self) -> Any:
        return self._engine().connect, by_sqlalchemy

    async def _async_session(self) -> Any:
        from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

        address = self.url.replace("sqlite://", "sqlite+aiosqlite://").replace("postgresql://", "postgresql+asyncpg://")
        engine = create_async_engine(address, **self._alone)
        self._closing.append(engine.dispose)
        return async_sessionmaker(engine), by_async_sqlalchemy

    # -- Django

    async def _django(self) -> Any:
        from django.db import transaction

        alias = f"transactions_{next(PLACES)}"
        known_to_django(alias, self.kind, self.url)
        return lambda: transaction.atomic(using=alias), by_django

    async def _django_alone(self) -> tuple[Callable[[], Any], Handler]:
        from django.db import connections

        alias = f"alone_{next(PLACES)}"
        known_to_django(alias, self.kind, self.url)

        @contextmanager
        def alone() -> Iterator[Any]:
            try:
                yield connections[alias]
            finally:
                connections[alias].close()

        return alone, by_django


def sql(number: int) -> str:
    return f"insert into {MINE} (n) values ({number})"


def plainly(number: int, fail: bool = False) -> None:
    current().tx.execute(sql(number))
    end(fail)


async def asynchronously(number: int, fail: bool = False) -> None:
    await current().tx.execute(sql(number))
    end(fail)


def by_sqlalchemy(number: int, fail: bool = False) -> None:
    from sqlalchemy import text

    current().tx.execute(text(sql(number)))
    end(fail)


async def by_async_sqlalchemy(number: int, fail: bool = False) -> None:
    from sqlalchemy import text

    await current().tx.execute(text(sql(number)))
    end(fail)


def by_django(number: int, fail: bool = False) -> None:
    connection = current().tx
    with connection.cursor() as cursor:
        cursor.execute(sql(number))
    end(fail)


def end(fail: bool) -> None:
    """Fail after the row was written, or go on."""
    if fail:
        raise ValueError("no")
