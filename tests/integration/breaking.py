"""Breaks a call of a SQL store at its n-th write, whatever it writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from packhorse.stores.contract import Store
from tests.conftest import namespace


class Breaking(Protocol):
    """What breaks a call."""

    async def arm(self, at: int) -> None:
        """Break the next call at this write, and only there."""

    async def writes(self) -> int:
        """How many writes there were since; fewer than armed for means that the call was not broken."""

    async def disarm(self) -> None:
        """Break nothing."""


class BreaksSQLite:
    """Triggers of the store's own connection, by row; the store must be in memory."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._at, self._count = connection, 0, 0
        connection.create_function("packhorse_breaks", 0, self._written)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'packhorse_%'")
        for (table,) in tables.fetchall():
            for event in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TEMP TRIGGER breaks_{event}_{table} AFTER {event} ON main.{table}"
                    " BEGIN SELECT packhorse_breaks(); END"
                )

    def _written(self) -> None:
        self._count += 1
        if self._count == self._at:
            raise ValueError("broken on purpose")

    async def arm(self, at: int) -> None:
        self._at, self._count = at, 0

    async def writes(self) -> int:
        return self._count

    async def disarm(self) -> None:
        self._at = 0


class BreaksPostgres:
    """Triggers by statement that end the session, or say that the disk is full."""

    def __init__(self, connection: Any, how: str) -> None:
        self._connection, self._how = connection, how
        self._broken = namespace("postgres")
        self._own = f"{self._broken}_breaks"  # a schema of this process of the run

    async def begin(self) -> None:
        await self._connection.execute(
            f"""
            CREATE SCHEMA {self._own};
            CREATE SEQUENCE {self._own}.writes;
            CREATE TABLE {self._own}.breaks_at (n bigint);
            INSERT INTO {self._own}.breaks_at VALUES (0);
            CREATE FUNCTION {self._own}.breaks() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('{self._own}.writes') = (SELECT n FROM {self._own}.breaks_at) THEN
                    {self._how}
                END IF;
                RETURN NULL;
            END $$;
            """
        )
        tables = await self._connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", self._broken)
        for (table,) in tables:
            await self._connection.execute(
                f"CREATE TRIGGER breaks AFTER INSERT OR UPDATE OR DELETE ON {self._broken}.{table}"
                f" EXECUTE FUNCTION {self._own}.breaks()"
            )

    async def end(self) -> None:
        await self._connection.execute(f"DROP SCHEMA IF EXISTS {self._own} CASCADE")

    async def arm(self, at: int) -> None:
        await self._connection.execute(f"UPDATE {self._own}.breaks_at SET n = {at}")
        await self._connection.execute(f"ALTER SEQUENCE {self._own}.writes RESTART")

    async def writes(self) -> int:
        called, last = await self._connection.fetchrow(f"SELECT is_called, last_value FROM {self._own}.writes")
        return last if called else 0

    async def disarm(self) -> None:
        await self._connection.execute(f"UPDATE {self._own}.breaks_at SET n = 0")


HOW = {
    "killed": "PERFORM pg_terminate_backend(pg_backend_pid());",
    "full disk": "RAISE disk_full USING MESSAGE = 'no room, on purpose';",
}


@asynccontextmanager
async def breaking(kind: str, url: str, store: Store, how: str) -> AsyncIterator[Breaking]:
    """What breaks calls of this store."""
    if kind == "memory":
        yield BreaksSQLite(store._handle.database._writing)  # type: ignore[attr-defined]
        return
    import asyncpg

    connection = await asyncpg.connect(url)
    breaks = BreaksPostgres(connection, HOW[how])
    try:
        await breaks.begin()
        yield breaks
    finally:
        await breaks.end()
        await connection.close()
