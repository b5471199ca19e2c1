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

    async def begin(self) -> None:
        schema = namespace("postgres")
        await self._connection.execute(
            f"""
            CREATE SEQUENCE public.breaks_count;
            CREATE TABLE public.breaks_at (n bigint);
            INSERT INTO public.breaks_at VALUES (0);
            CREATE FUNCTION public.breaks() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('public.breaks_count') = (SELECT n FROM public.breaks_at) THEN
                    {self._how}
                END IF;
                RETURN NULL;
            END $$;
            """
        )
        tables = await self._connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        for (table,) in tables:
            await self._connection.execute(
                f"CREATE TRIGGER breaks AFTER INSERT OR UPDATE OR DELETE ON {schema}.{table} EXECUTE FUNCTION public.breaks()"
            )

    async def end(self) -> None:
        await self._connection.execute(
            "DROP FUNCTION public.breaks CASCADE; DROP SEQUENCE public.breaks_count; DROP TABLE public.breaks_at"
        )

    async def arm(self, at: int) -> None:
        await self._connection.execute(f"UPDATE public.breaks_at SET n = {at}")
        await self._connection.execute("ALTER SEQUENCE public.breaks_count RESTART")

    async def writes(self) -> int:
        called, last = await self._connection.fetchrow("SELECT is_called, last_value FROM public.breaks_count")
        return last if called else 0

    async def disarm(self) -> None:
        await self._connection.execute("UPDATE public.breaks_at SET n = 0")


HOW = {
    "killed": "PERFORM pg_terminate_backend(pg_backend_pid());",
    "full disk": "RAISE disk_full USING MESSAGE = 'no room, on purpose';",
}


@asynccontextmanager
async def breaking(kind: str, url: str, store: Store, how: str) -> AsyncIterator[Breaking]:
    """What breaks calls of this store."""
    if kind == "memory":
        yield BreaksSQLite(store._seat.database._writing)  # type: ignore[attr-defined]
        return
    import asyncpg

    connection = await asyncpg.connect(url)
    breaks = BreaksPostgres(connection, HOW[how])
    await breaks.begin()
    try:
        yield breaks
    finally:
        await breaks.end()
        await connection.close()
