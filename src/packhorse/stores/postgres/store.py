"""The store on PostgreSQL."""

from collections.abc import AsyncIterator

import asyncpg

from packhorse.errors import ConfigError, StoreClosed, StoreError
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import Step
from packhorse.stores import contract
from packhorse.stores.contract import Leaving, Topic
from packhorse.stores.postgres.address import parse
from packhorse.stores.postgres.database import Database
from packhorse.stores.postgres.examine import findings
from packhorse.stores.postgres.fleet import PostgresFleet
from packhorse.stores.postgres.hints import Hints
from packhorse.stores.postgres.jobs import PostgresJobs
from packhorse.stores.postgres.layout import Layout
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.postgres.queues import PostgresQueues
from packhorse.stores.postgres.records import PostgresRecords
from packhorse.stores.postgres.streams import PostgresStreams
from packhorse.stores.postgres.transaction import Lounge, PostgresTransaction
from packhorse.stores.postgres.wakes import Wakes
from packhorse.stores.postgres.within import PostgresWithin
from packhorse.stores.sql.migrate import check, pending, standing

VACUUM = 600  # seconds for one table; who is cut off begins anew
MIGRATE = 6 * 3600  # seconds for one statement of a step, on tables of any size


class PostgresStore:
    """All state in one schema of a PostgreSQL database."""

    jobs: contract.Jobs
    queues: contract.Queues
    records: contract.Records
    streams: contract.Streams
    fleet: contract.Fleet

    def __init__(
        self, url: str, *, namespace: str = "packhorse", clock: Clock | None = None, events: bool = True, size: int = 10
    ) -> None:
        self._url, self._clock, self._events = url, clock, events
        self._layout = Layout(namespace)
        self._address = parse(url)
        self._database = Database(self._address, lists=self._layout.statements.lists, size=size)
        self._namespace = Namespace(self._database, self._layout, clock=clock, events=events)
        self._wakes = Wakes(self._database, self._layout.channel, self._layout.statements.session)
        self._lounge = Lounge(self._address.urls, self._layout.statements)
        self._hints = Hints(clock or SYSTEM)
        self.jobs = PostgresJobs(self._namespace, self._hints)
        self.queues = PostgresQueues(self._namespace)
        self.records = PostgresRecords(self._namespace)
        self.streams = PostgresStreams(self._namespace)
        self.fleet = PostgresFleet(self._namespace)

    async def open(self) -> None:
        """Connect, and refuse a layout that is missing, too old or newer than this release, saying what to do."""
        async with self._database.alone() as connection:
            isolation, pid = await self._session(connection)
            check(self._layout.steps, await self._taken(connection))
            self._namespace.is_known_as(await connection.fetchval(self._layout.statements.identity))
        if isolation != "read committed":
            raise StoreError(
                f"The default isolation of this role is {isolation!r}, under which calls cannot see what others have "
                "just done: ALTER ROLE ... RESET default_transaction_isolation, or use another role"
            )
        pooled = self._address.pooled
        if pooled is None:  # a pooler tells clients a pid of its own
            pooled = connection.get_server_pid() != pid
        await self._database.open(pooled=pooled)
        self._lounge.open(pooled=pooled)
        self._wakes.open()

    async def close(self) -> None:
        """Let go of everything; a closed store refuses calls, and closing twice is harmless."""
        await self._wakes.close()
        await self._lounge.close()
        await self._database.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        statements = self._layout.statements
        async with self._database.alone() as connection:
            await self._session(connection)
            # Look before anything is locked: with nothing to do, no right to create is needed and no migrator waited for.
            if not pending(self._layout.steps, await self._taken(connection)):
                return []
        async with self._database.alone(limit=MIGRATE) as connection, connection.transaction():
            await connection.execute(statements.migrating)
            await connection.execute(statements.layout)
            steps = pending(self._layout.steps, await self._taken(connection))
            for step in steps:
                await connection.execute(statements.migrating + step.sql)  # never without any statement
                await connection.execute(statements.take, step.name, step.checksum)
        return [step.name for step in steps]

    async def steps(self) -> list[Step]:
        """Answer the steps of the layout in order, each with its text and how it stands."""
        async with self._database.alone() as connection:
            return standing(self._layout.steps, await self._taken(connection), self._layout.script)

    async def examine(self) -> list[Finding]:
        """Answer what is in force in the database and on its server."""
        async with self._database.alone() as connection:
            return await findings(connection, self._layout)

    async def ping(self) -> int:
        """Answer with the store's time."""
        [[now]] = await self._namespace.read("ping", self._namespace.now())
        return int(now)

    def wakes(
        self,
        topic: Topic,
        leaving: Leaving | None = None,  # noqa: ARG002
        worker: bytes | None = None,  # noqa: ARG002
    ) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for; hints may be missed or come for nothing."""
        if not self._database.opened:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        return self._wakes.listen(topic)

    def twin(self) -> "PostgresStore":
        """Answer a second store of the same place, with connections of its own."""
        namespace = self._layout.namespace
        return PostgresStore(self._url, namespace=namespace, clock=self._clock, events=self._events, size=2)

    def transaction(self, limit: int) -> PostgresTransaction:  # noqa: ARG002 - it holds up nobody but for its own rows
        """Answer a transaction for one attempt, on one of a few connections that are there for that."""
        return PostgresTransaction(self._lounge, PostgresWithin(self._namespace))

    async def maintain(self) -> list[str]:
        """Vacuum the narrow tables that have many dead rows, and answer which.

        Autovacuum looks once a minute, and claims walk over what it has not cleaned. What nobody may clean yet, and
        what is not this role's to clean, claims are led around.
        """
        worn = await self._namespace.read("worn", self._layout.namespace)
        self._hints.worn(sum(dead for table, dead, _ in worn if table == "ready"))
        mine = [table for table, _, may in worn if may]
        if mine:
            async with self._database.alone(limit=VACUUM) as connection:
                for table in mine:
                    await connection.execute(self._layout.vacuum(table))
        return mine

    async def _session(self, connection: "asyncpg.Connection[asyncpg.Record]") -> tuple[str, int]:
        """Isolation and process of a session; a database that cannot hold every character is refused."""
        [[isolation, pid, encoding]] = await connection.fetch(self._layout.statements.session)
        if encoding != "UTF8":
            raise ConfigError(
                f"The encoding of this database is {encoding}, which cannot hold all that jobs may carry: use a database "
                "made with ENCODING 'UTF8' TEMPLATE template0"
            )
        return isolation, pid

    async def _taken(self, connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, str]:
        try:
            rows = await connection.fetch(self._layout.statements.taken)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            return {}
        return {row[0]: row[1] for row in rows}
