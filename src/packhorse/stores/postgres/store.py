"""The store on PostgreSQL."""

from collections.abc import AsyncIterator

import asyncpg

from packhorse.errors import ConfigError, SchemaMismatch, StoreClosed, StoreError
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import MigrationStep
from packhorse.stores import contract
from packhorse.stores.contract import Topic
from packhorse.stores.postgres.address import parse
from packhorse.stores.postgres.bookmarks import ClaimBookmarks
from packhorse.stores.postgres.database import PostgresDatabase
from packhorse.stores.postgres.diagnostics import findings
from packhorse.stores.postgres.fleet import PostgresFleet
from packhorse.stores.postgres.function_set import is_newer, is_older
from packhorse.stores.postgres.jobs import PostgresJobs
from packhorse.stores.postgres.layout import Layout
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.postgres.queues import PostgresQueues
from packhorse.stores.postgres.records import PostgresRecords
from packhorse.stores.postgres.streams import PostgresStreams
from packhorse.stores.postgres.transaction import PostgresTransaction, TransactionPool
from packhorse.stores.postgres.wakes import PostgresWakes
from packhorse.stores.postgres.within import FRESH, PostgresWithin
from packhorse.stores.sql.migrate import TakenStep, check, pending, status

VACUUM_SECONDS = 600  # for one table; who is cut off begins anew
MIGRATE_SECONDS = 6 * 3600  # for one statement of a step, on tables of any size


class PostgresStore:
    """All state in one schema of a PostgreSQL database."""

    jobs: contract.Jobs
    queues: contract.Queues
    records: contract.Records
    streams: PostgresStreams
    fleet: contract.Fleet
    parked_claims = None

    def __init__(
        self, url: str, *, namespace: str = "packhorse", clock: Clock | None = None, events: bool = True, size: int = 10
    ) -> None:
        self._url, self._clock, self._events = url, clock, events
        self._layout = Layout(namespace)
        self._address = parse(url)
        self._database = PostgresDatabase(self._address, lists=self._layout.statements.lists, size=size)
        self._namespace = Namespace(self._database, self._layout, clock=clock, events=events)
        self._wakes = PostgresWakes(self._database, self._layout.channel, self._layout.statements.session)
        self._transaction_pool = TransactionPool(self._address.urls, self._layout.statements)
        self._bookmarks = ClaimBookmarks(clock or SYSTEM)
        self.jobs = PostgresJobs(self._namespace, self._bookmarks)
        self.queues = PostgresQueues(self._namespace)
        self.records = PostgresRecords(self._namespace)
        self.streams = PostgresStreams(self._namespace)
        self.fleet = PostgresFleet(self._namespace)

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with, saying what to do."""
        async with self._database.alone() as connection:
            isolation, pid = await self._session(connection)
            check(self._layout.steps, await self._usable(connection))
            self._namespace.is_known_as(await connection.fetchval(self._layout.statements.identity))
        if isolation not in FRESH:
            raise StoreError(
                f"The default isolation of this role is {isolation!r}, under which calls cannot see what others have "
                "just done: ALTER ROLE ... RESET default_transaction_isolation, or use another role"
            )
        pooled = self._address.pooled
        if pooled is None:  # a pooler tells clients a pid of its own
            pooled = connection.get_server_pid() != pid
        await self._database.open(pooled=pooled)
        self._transaction_pool.open(pooled=pooled)
        self._wakes.open()

    async def close(self) -> None:
        """Let go of everything; a closed store refuses calls, and closing twice is harmless."""
        await self.streams.close()
        await self._wakes.close()
        await self._transaction_pool.close()
        await self._database.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        statements = self._layout.statements
        async with self._database.alone() as connection:
            await self._session(connection)
            # Look before anything is locked: with nothing to do, no right to create is needed and no migrator waited for.
            if not pending(self._layout.steps, await self._usable(connection)):
                return []
        async with self._database.alone(limit=MIGRATE_SECONDS) as connection, connection.transaction():
            await connection.execute(statements.migrating)
            await connection.execute(statements.layout)
            steps = pending(self._layout.steps, await self._usable(connection))
            for step in steps:
                await connection.execute(statements.migrating + step.sql)  # never without any statement
                await connection.execute(statements.take, step.name, step.checksum, step.compatible)
        return [step.name for step in steps]

    async def steps(self) -> list[MigrationStep]:
        """Answer the steps of the layout in order, each with its text and how it stands."""
        async with self._database.alone() as connection:
            return status(self._layout.steps, await self._taken(connection), self._layout.script)

    async def examine(self) -> list[Finding]:
        """Answer what is in force in the database and on its server."""
        async with self._database.alone() as connection:
            return await findings(connection, self._layout)

    async def ping(self) -> int:
        """Answer with the store's time."""
        [[now]] = await self._namespace.read("ping", self._namespace.now())
        return int(now)

    def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for; hints may be missed or come for nothing."""
        if not self._database.opened:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        return self._wakes.listen(topic)

    def clone(self) -> "PostgresStore":
        """Answer a second store of the same place, with connections of its own."""
        namespace = self._layout.namespace
        return PostgresStore(self._url, namespace=namespace, clock=self._clock, events=self._events, size=2)

    def transaction(self, limit: int) -> PostgresTransaction:  # noqa: ARG002 - it holds up nobody but for its own rows
        """Answer a transaction for one attempt, on one of a few connections that are there for that."""
        return PostgresTransaction(self._transaction_pool, PostgresWithin(self._namespace))

    async def maintain(self) -> list[str]:
        """Vacuum the narrow tables that have many dead rows, and answer which.

        Autovacuum looks once a minute, and claims walk over what it has not cleaned. What nobody may clean yet, and
        what is not this role's to clean, claims are led around.
        """
        found = await self._namespace.read("tables_with_dead_rows", self._layout.namespace)
        self._bookmarks.set_dead_rows(sum(dead for table, dead, _ in found if table == "ready"))
        mine = [table for table, _, may in found if may]
        if mine:
            async with self._database.alone(limit=VACUUM_SECONDS) as connection:
                for table in mine:
                    await connection.execute(self._layout.vacuum(table))
        return mine

    async def _session(self, connection: "asyncpg.Connection[asyncpg.Record]") -> tuple[str, int]:
        """Isolation and process of a session; a database that cannot hold every character is refused."""
        [[isolation, pid, encoding]] = await connection.fetch(self._layout.statements.session)
        if encoding != "UTF8":
            raise ConfigError(
                f"The encoding of this database is {encoding}, which cannot store all texts: use a database "
                "created with ENCODING 'UTF8' TEMPLATE template0"
            )
        return isolation, pid

    async def _usable(self, connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, TakenStep]:
        """Read the steps that were taken; refuse a layout whose functions this release can no longer call."""
        taken = await self._taken(connection)
        if is_newer(taken):
            raise SchemaMismatch(
                "The layout has only functions of newer releases, none that this release can call: upgrade Packhorse"
            )
        return taken

    async def _taken(self, connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, TakenStep]:
        """Read the steps that were taken, but for older function sets, which this release does not need."""
        try:
            rows = await connection.fetch(self._layout.statements.taken)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            return {}
        return {row[0]: TakenStep(row[1], row[2]) for row in rows if not is_older(row[0])}
