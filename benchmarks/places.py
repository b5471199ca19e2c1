"""The stores that are measured on: throw-away servers on loopback, or a file; empty for every trial."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import HOME
from tests import servers

SETTINGS = {
    "redis": ("--appendonly", "yes", "--appendfsync", "everysec"),
    "postgres": ("synchronous_commit=on", "shared_buffers=128MB"),
}
DATABASE = "bench"


@dataclass(frozen=True, slots=True)
class Place:
    """A store to measure on. ``empty`` makes it new and answers its address."""

    what: str
    server: int | None
    empty: Callable[[], str]


@contextmanager
def opened(store: str) -> Iterator[Place]:
    """A place for as long as the block runs."""
    if store == "sqlite":
        with _files() as place:
            yield place
    else:
        with servers.running(store, *SETTINGS[store]) as server:
            assert server.process is not None
            empty = _postgres if store == "postgres" else _redis
            what = f"{store} {server.version} ({server.source}), {' '.join(SETTINGS[store])}"
            yield Place(what, server.process.pid, lambda: asyncio.run(empty(server.url)))


@contextmanager
def _files() -> Iterator[Place]:
    import sqlite3

    HOME.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="sqlite-", dir=HOME))

    def empty() -> str:
        shutil.rmtree(folder)
        folder.mkdir()
        return f"sqlite:///{folder / 'bench.db'}"

    try:
        yield Place(f"sqlite {sqlite3.sqlite_version}, WAL", None, empty)
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
