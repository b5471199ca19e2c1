"""The embedded store: its facets, its layout, its file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from sqlite3 import Connection, OperationalError
from urllib.parse import unquote, urlsplit

from packhorse.errors import ConfigError
from packhorse.model.clock import Clock
from packhorse.stores.contract import Topic
from packhorse.stores.sql.migrate import check, migrations, pending
from packhorse.stores.sqlite.database import Database
from packhorse.stores.sqlite.fleet import SQLiteFleet
from packhorse.stores.sqlite.jobs import SQLiteJobs
from packhorse.stores.sqlite.queues import SQLiteQueues
from packhorse.stores.sqlite.records import SQLiteRecords
from packhorse.stores.sqlite.step import SQL
from packhorse.stores.sqlite.streams import SQLiteStreams

PACKAGE = "packhorse.stores.sqlite"

MIGRATIONS = migrations(PACKAGE)


class SQLiteStore:
    """Where all state is kept: one file, or memory."""

    def __init__(self, url: str, *, clock: Clock | None = None, events: bool = True) -> None:
        self._database = Database(path_of(url), clock=clock, events=events)
        self.jobs = SQLiteJobs(self._database)
        self.queues = SQLiteQueues(self._database)
        self.records = SQLiteRecords(self._database)
        self.streams = SQLiteStreams(self._database)
        self.fleet = SQLiteFleet(self._database)

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with."""
        await asyncio.to_thread(self._database.script, lambda connection: check(MIGRATIONS, _taken(connection)))
        self._database.start()

    async def close(self) -> None:
        """Let go of everything."""
        await self._database.stop()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        return await asyncio.to_thread(self._database.script, _migrate)

    async def ping(self) -> int:
        """Answer with the store's time."""
        return await self._database.read(lambda step: step.now)

    def twin(self) -> "SQLiteTwin":
        """Answer a second store of the same place: it stands in line for the same writer, renewals first."""
        return SQLiteTwin(self)

    async def maintain(self) -> list[str]:
        """Answer that nothing was tidied: the writer checkpoints by itself."""
        return []

    def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for."""
        return self._database.wakes.listen(topic)


class SQLiteTwin:
    """The same store for another event loop. One process has one writer; it lives as long as the store itself is open."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self.jobs, self.queues, self.records = store.jobs, store.queues, store.records
        self.streams, self.fleet = store.streams, store.fleet
        self.migrate, self.ping, self.maintain = store.migrate, store.ping, store.maintain
        self.wakes, self.twin = store.wakes, store.twin

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""


def path_of(url: str) -> str:
    """The file an address means: three slashes for a relative path, four for an absolute one."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or len(path) < 2:
        raise ConfigError("A SQLite address is sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:")
    return path[1:] if path == "/:memory:" else str(Path(path[1:]))


def _taken(connection: Connection) -> dict[str, str]:
    try:
        return dict(connection.execute(SQL.steps_taken).fetchall())
    except OperationalError:
        return {}


def _migrate(connection: Connection) -> list[str]:
    connection.execute(SQL.create_migrations)
    steps = pending(MIGRATIONS, _taken(connection))
    for step in steps:
        for statement in _statements(step.sql):
            connection.execute(statement)
        connection.execute(SQL.take_step, (step.name, step.checksum))
    return [step.name for step in steps]


def _statements(script: str) -> list[str]:
    """The statements of a script: executescript would commit before it runs."""
    bare = "\n".join(line.split("--")[0] for line in script.splitlines())
    return [statement for statement in bare.split(";") if statement.strip()]
