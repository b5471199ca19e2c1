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
from packhorse.model.layout import Step
from packhorse.stores.contract import Leaving, Topic
from packhorse.stores.sql.migrate import Migration, check, migrations, pending, standing
from packhorse.stores.sqlite.database import Database
from packhorse.stores.sqlite.examine import findings
from packhorse.stores.sqlite.file import File
from packhorse.stores.sqlite.fleet import SQLiteFleet
from packhorse.stores.sqlite.jobs import SQLiteJobs
from packhorse.stores.sqlite.queues import SQLiteQueues
from packhorse.stores.sqlite.records import SQLiteRecords
from packhorse.stores.sqlite.seat import Seat
from packhorse.stores.sqlite.step import SQL, as_json
from packhorse.stores.sqlite.streams import SQLiteStreams
from packhorse.stores.sqlite.transaction import SQLiteTransaction
from packhorse.stores.url import split

PACKAGE = "packhorse.stores.sqlite"

MIGRATIONS = migrations(PACKAGE)
_SAYS = {"synchronous": ("full", "normal"), "foreign_keys": ("off", "on"), "unsafe_network": ("yes", "no")}
_TABLES = re.compile(r"\bTABLE (\w+) \(")


class SQLiteStore:
    """Where all state is kept: one file, or memory."""

    def __init__(self, url: str, *, clock: Clock | None = None, events: bool = True) -> None:
        self._sit(Seat(Database(file_of(url), clock=clock, events=events)))

    def _sit(self, seat: Seat) -> None:
        self._seat = seat
        self.jobs = SQLiteJobs(seat)
        self.queues = SQLiteQueues(seat)
        self.records = SQLiteRecords(seat)
        self.streams = SQLiteStreams(seat)
        self.fleet = SQLiteFleet(seat)

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with."""
        await self._seat.take(lambda connection: check(MIGRATIONS, _taken(connection)))

    async def close(self) -> None:
        """Let go of everything."""
        await self._seat.leave()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        taken = await asyncio.to_thread(self._seat.database.look, _taken)  # no lock if there is nothing to do
        return await asyncio.to_thread(self._seat.database.script, _migrate) if pending(MIGRATIONS, taken) else []

    async def steps(self) -> list[Step]:
        """Answer the steps of the layout in order, each with its text and how it stands."""
        taken = await asyncio.to_thread(self._seat.database.look, _taken)
        return standing(MIGRATIONS, taken, _script)

    async def examine(self) -> list[Finding]:
        """Answer what is in force in the file and around it."""
        database = self._seat.database
        return await asyncio.to_thread(
            database.look, lambda connection: findings(database.file, connection, database.merging.now())
        )

    async def ping(self) -> int:
        """Answer with the store's time."""
        return await self._seat.read(lambda step: step.now)

    def twin(self) -> "SQLiteStore":
        """Answer a second store of the same place: it stands in line for the same writer, renewals first."""
        twin = SQLiteStore.__new__(SQLiteStore)
        twin._sit(Seat(self._seat.database))
        return twin

    def transaction(self, limit: int) -> SQLiteTransaction:
        """Answer a transaction for one attempt; while it is open nobody else writes, so it ends after the limit."""
        return SQLiteTransaction(self._seat, limit)

    async def maintain(self) -> list[str]:
        """Answer that nothing was tidied: the writer checkpoints by itself."""
        return []

    def wakes(
        self,
        topic: Topic,
        leaving: Leaving | None = None,  # noqa: ARG002
        worker: bytes | None = None,  # noqa: ARG002
    ) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for."""
        return self._seat.listen(topic)


def path_of(url: str) -> str:
    """The file an address means: three slashes for a path in the folder where the program is now, four for an absolute one."""
    parts = split(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or len(path) < 2:
        raise ConfigError("A SQLite address is sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:")
    return path[1:] if path == "/:memory:" else str(Path(path[1:]).absolute())


def file_of(url: str) -> File:
    """The file, and what an address may say beside it."""
    said = [(name, value.lower()) for name, value in parse_qsl(split(url).query, keep_blank_values=True)]
    if any(value not in _SAYS.get(name, ()) for name, value in said):
        known = ", ".join(f"{name}={' or '.join(words)}" for name, words in _SAYS.items())
        raise ConfigError(f"A SQLite address takes {known} after its file; write a ? in a name as %3F")
    given = dict(said)
    return File(
        path_of(url),
        unsafe_network=given.get("unsafe_network") == "yes",
        synchronous=given.get("synchronous", "full"),
        foreign_keys=given.get("foreign_keys") == "on",
    )


def _taken(connection: Connection | None) -> dict[str, str]:
    if connection is None:
        return {}
    try:
        return dict(connection.execute(SQL.steps_taken).fetchall())
    except OperationalError:
        return {}


def _migrate(connection: Connection) -> list[str]:
    _refuse_others(connection)
    connection.execute(SQL.create_migrations)
    steps = pending(MIGRATIONS, _taken(connection))
    for step in steps:
        for statement in _statements(step.sql):
            connection.execute(statement)
        connection.execute(SQL.take_step, (step.name, step.checksum))
    return [step.name for step in steps]


def _refuse_others(connection: Connection) -> None:
    """Refuse a file where another program has tables that are called like ours."""
    ours = ["packhorse_migrations", *(name for step in MIGRATIONS for name in _TABLES.findall(step.sql))]
    if not _taken(connection) and (found := connection.execute(SQL.tables, (as_json(ours),)).fetchall()):
        names = ", ".join(name for (name,) in found)
        raise SchemaMismatch(f"There are tables ({names}) of another program: give the store a file of its own")


def _script(step: Migration) -> str:
    """A step as somebody would run it by hand."""
    note = SQL.take_step.replace("?1", f"'{step.name}'").replace("?2", f"'{step.checksum}'")
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
