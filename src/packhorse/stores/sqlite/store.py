"""The embedded store: its facets, its layout, its file."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from sqlite3 import Connection, OperationalError, complete_statement
from urllib.parse import parse_qsl, unquote

from packhorse.errors import ConfigError, SchemaMismatch
from packhorse.model.clock import Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import MigrationStep
from packhorse.stores.contract import Topic
from packhorse.stores.sql.migrate import Migration, TakenStep, check, migrations, pending, status
from packhorse.stores.sqlite.database import SQLiteDatabase
from packhorse.stores.sqlite.diagnostics import findings
from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.fleet import SQLiteFleet
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.jobs import SQLiteJobs
from packhorse.stores.sqlite.queues import SQLiteQueues
from packhorse.stores.sqlite.records import SQLiteRecords
from packhorse.stores.sqlite.streams import SQLiteStreams
from packhorse.stores.sqlite.transaction import SQLiteTransaction
from packhorse.stores.sqlite.unit_of_work import SQL, as_json
from packhorse.stores.url import split

PACKAGE = "packhorse.stores.sqlite"

MIGRATIONS = migrations(PACKAGE)
_SAYS = {"synchronous": ("full", "normal"), "foreign_keys": ("off", "on"), "unsafe_network": ("yes", "no")}
_TABLES = re.compile(r"\bTABLE (\w+) \(")


class SQLiteStore:
    """Where all state is kept: one file, or memory."""

    parked_claims = None

    def __init__(self, url: str, *, clock: Clock | None = None, events: bool = True) -> None:
        self._open_facets(StoreHandle(SQLiteDatabase(file_of(url), clock=clock, events=events)))

    def _open_facets(self, handle: StoreHandle) -> None:
        self._handle = handle
        self.jobs = SQLiteJobs(handle)
        self.queues = SQLiteQueues(handle)
        self.records = SQLiteRecords(handle)
        self.streams = SQLiteStreams(handle)
        self.fleet = SQLiteFleet(handle)

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with."""
        await self._handle.open(lambda connection: check(MIGRATIONS, _taken(connection)))

    async def close(self) -> None:
        """Let go of everything."""
        await self.streams.close()
        await self._handle.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        taken = await asyncio.to_thread(self._handle.database.look, _taken)  # no lock if there is nothing to do
        return await asyncio.to_thread(self._handle.database.script, _migrate) if pending(MIGRATIONS, taken) else []

    async def steps(self) -> list[MigrationStep]:
        """Answer the steps of the layout in order, each with its text and how it stands."""
        taken = await asyncio.to_thread(self._handle.database.look, _taken)
        return status(MIGRATIONS, taken, _script)

    async def examine(self) -> list[Finding]:
        """Answer what is in force in the file and around it."""
        database = self._handle.database
        return await asyncio.to_thread(
            database.look, lambda connection: findings(database.file, connection, database.write_batch.now())
        )

    async def ping(self) -> int:
        """Answer with the store's time."""
        return await self._handle.read(lambda step: step.now)

    def clone(self) -> "SQLiteStore":
        """Answer a second store of the same place: it queues for the same writer, renewals first."""
        clone = SQLiteStore.__new__(SQLiteStore)
        clone._open_facets(StoreHandle(self._handle.database))
        return clone

    def transaction(self, limit: int) -> SQLiteTransaction:
        """Answer a transaction for one attempt; while it is open nobody else writes, so it ends after the limit."""
        return SQLiteTransaction(self._handle, limit)

    async def maintain(self) -> list[str]:
        """Answer that nothing was tidied: the writer checkpoints by itself."""
        return []

    def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for."""
        return self._handle.listen(topic)


def path_of(url: str) -> str:
    """The file an address means: three slashes for a path in the folder where the program is now, four for an absolute one."""
    parts = split(url)
    path = unquote(parts.path, errors="surrogateescape")
    if parts.netloc or not path.startswith("/") or len(path) < 2:
        raise ConfigError("A SQLite address is sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:")
    return path[1:] if path == "/:memory:" else str(Path(path[1:]).absolute())


def file_of(url: str) -> File:
    """The file, and what an address may say beside it."""
    options = [(name, value.lower()) for name, value in parse_qsl(split(url).query, keep_blank_values=True)]
    if any(value not in _SAYS.get(name, ()) for name, value in options):
        known = ", ".join(f"{name}={' or '.join(words)}" for name, words in _SAYS.items())
        raise ConfigError(f"A SQLite address takes {known} after its file; write a ? in a name as %3F")
    given = dict(options)
    return File(
        path_of(url),
        unsafe_network=given.get("unsafe_network") == "yes",
        synchronous=given.get("synchronous", "full"),
        foreign_keys=given.get("foreign_keys") == "on",
    )


def _taken(connection: Connection | None) -> dict[str, TakenStep]:
    if connection is None:
        return {}
    try:
        return {
            name: TakenStep(checksum, bool(compatible))
            for name, checksum, compatible in connection.execute(SQL.steps_taken)
        }
    except OperationalError:
        return {}


def _migrate(connection: Connection) -> list[str]:
    _refuse_others(connection)
    connection.execute(SQL.create_migrations)
    steps = pending(MIGRATIONS, _taken(connection))
    for step in steps:
        for statement in _statements(step.sql):
            connection.execute(statement)
        connection.execute(SQL.take_step, (step.name, step.checksum, step.compatible))
    return [step.name for step in steps]


def _refuse_others(connection: Connection) -> None:
    """Refuse a file where another program has tables that are called like ours."""
    ours = ["packhorse_migrations", *(name for step in MIGRATIONS for name in _TABLES.findall(step.sql))]
    if not _taken(connection) and (found := connection.execute(SQL.tables, (as_json(ours),)).fetchall()):
        names = ", ".join(name for (name,) in found)
        raise SchemaMismatch(f"The file has tables ({names}) of another program: use another file for the store")


def _script(step: Migration) -> str:
    """A step as somebody would run it by hand."""
    note = SQL.take_step.replace("?1", f"'{step.name}'").replace("?2", f"'{step.checksum}'")
    note = note.replace("?3", str(int(step.compatible)))
    return "\n".join((*((SQL.create_migrations,) if step is MIGRATIONS[0] else ()), step.sql.strip(), note))


def _statements(script: str) -> list[str]:
    """The statements of a script, triggers whole: executescript would commit before it runs."""
    bare = "\n".join(line.split("--")[0] for line in script.splitlines())
    statements, begun = [], ""
    for part in bare.split(";"):
        begun += f"{part};"
        if complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
