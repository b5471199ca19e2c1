"""The stores that are measured on: throw-away servers on loopback, or a file; empty for every trial."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import HOME
from tests import servers

SETTINGS = {
    "redis": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "postgres": ("synchronous_commit=on", "shared_buffers=128MB"),
}
FILES = {"sqlite": "", "sqlite-normal": "?synchronous=normal"}
DATABASE = "bench"
# Pages in use, those in the journal too.
FILE_BYTES = """
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A store to measure on. ``empty`` makes it new and answers its address, ``weigh`` how many bytes it holds."""

    what: str
    server: int | None
    empty: Callable[[], str]
    weigh: Callable[[], int]


@contextmanager
def opened(store: str, *, server: str | None = None) -> Iterator[Place]:
    """A place for as long as the block runs, on another server of the same kind if one is named."""
    if store in FILES:
        with _files(FILES[store]) as place:
            yield place
    else:
        with servers.running(server or store, *SETTINGS[store]) as running:
            assert running.process is not None
            empty, weigh = (_postgres, _postgres_bytes) if store == "postgres" else (_redis, _redis_bytes)
            what = f"{server or store} {running.version} ({running.source}), {' '.join(SETTINGS[store])}"
            url = running.url.replace("valkey://", "redis://")  # the scheme that all sides know
            yield Place(
                what,
                running.process.pid,
                lambda: asyncio.run(empty(url)),
                lambda: asyncio.run(weigh(url)),
            )


@contextmanager
def _files(query: str) -> Iterator[Place]:
    import sqlite3

    HOME.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="sqlite-", dir=HOME))

    def empty() -> str:
        shutil.rmtree(folder)
        folder.mkdir()
        return f"sqlite:///{folder / 'bench.db'}{query}"

    def weigh() -> int:
        with closing(sqlite3.connect(folder / "bench.db")) as connection:
            return int(connection.execute(FILE_BYTES).fetchone()[0])

    try:
        yield Place(f"sqlite {sqlite3.sqlite_version}, WAL{query}", None, empty, weigh)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _redis(url: str) -> str:
    import redis.asyncio

    client = redis.asyncio.from_url(url)
    await client.flushall()
    await client.script_flush()
    await client.aclose()
    return url


async def _postgres(url: str) -> str:
    import asyncpg

    connection = await asyncpg.connect(url)
    for statement in (f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", f"CREATE DATABASE {DATABASE}", "CHECKPOINT"):
        await connection.execute(statement)
    await connection.close()
    return f"{url.rpartition('/')[0]}/{DATABASE}"


async def _redis_bytes(url: str) -> int:
    import redis.asyncio

    client = redis.asyncio.from_url(url)
    try:
        return int((await client.info("memory"))["used_memory"])
    finally:
        await client.aclose()


async def _postgres_bytes(url: str) -> int:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT pg_database_size($1::name)", DATABASE))
    finally:
        await connection.close()
