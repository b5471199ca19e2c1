"""The store on Redis or Valkey."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

from packhorse.errors import NoTransactions
from packhorse.model.clock import Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import MigrationStep
from packhorse.stores.contract import Topic
from packhorse.stores.redis import diagnostics, layout, wakes
from packhorse.stores.redis.fleet import RedisFleet
from packhorse.stores.redis.jobs import RedisJobs
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.queues import RedisQueues
from packhorse.stores.redis.records import RedisRecords
from packhorse.stores.redis.repair import Repair
from packhorse.stores.redis.scripts import Scripts
from packhorse.stores.redis.streams import RedisStreams
from packhorse.stores.redis.wakes import Broadcast, RedisParkedClaims
from packhorse.stores.sql.migrate import status


class RedisStore:
    """A store whose state is in the keys of one namespace on one server."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "packhorse",
        clock: Clock | None = None,
        events: bool = True,
        scripts: Scripts | None = None,
    ) -> None:
        self._make = partial(RedisStore, url, namespace=namespace, clock=clock, events=events, scripts=scripts)
        self._keyspace = Keyspace(url, namespace=namespace, clock=clock, events=events, scripts=scripts)
        self.jobs = RedisJobs(self._keyspace)
        self.queues = RedisQueues(self._keyspace)
        self.records = RedisRecords(self._keyspace)
        self.streams = RedisStreams(self._keyspace)
        self.fleet = RedisFleet(self._keyspace)
        self.parked_claims = RedisParkedClaims(self._keyspace)
        self._repair = Repair(self._keyspace)
        self._broadcasts = {
            Topic.WORK: Broadcast(lambda: wakes.work(self._keyspace)),
            Topic.ENDS: Broadcast(lambda: wakes.ends(self._keyspace)),
        }

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with, saying what to do."""
        self._keyspace.connections.open()
        try:
            await layout.check_settings(self._keyspace)
            await layout.check_steps(self._keyspace)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections; a closed store refuses calls, and closing twice is harmless."""
        for broadcast in self._broadcasts.values():
            await broadcast.stop()
        await self.streams.close()
        await self._keyspace.connections.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and return the names of the steps taken."""
        async with self._connected():
            return await layout.take_steps(self._keyspace)

    async def steps(self) -> list[MigrationStep]:
        """Return the steps of the layout in order, each with its text and state."""
        async with self._connected():
            return status(layout.steps(), await layout.taken_steps(self._keyspace))

    async def examine(self) -> list[Finding]:
        """Return findings about the server."""
        async with self._connected():
            return await diagnostics.findings(self._keyspace.connections)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        """Accept calls for a while, even if the store is not open."""
        connections = self._keyspace.connections
        was_closed = connections.is_closed()
        connections.open()
        try:
            yield
        finally:
            if was_closed:
                await connections.close()

    async def ping(self) -> int:
        """Return the store's time."""
        return await self._keyspace.now()

    def clone(self) -> "RedisStore":
        """Return another store of the same namespace, with connections of its own."""
        return self._make()

    def transaction(self, limit: int) -> NoReturn:  # noqa: ARG002
        """Refuse: writes of a handler to a database cannot be committed with what is stored here."""
        raise NoTransactions(
            "a store on Redis has none; keep the store in the database that the handler writes to (SQLite or PostgreSQL), "
            "or write without transaction= and use current().idempotency_key to recognize a repeat"
        )

    async def maintain(self) -> list[str]:
        """Repair what was changed by hand, and return what that was."""
        return await self._repair.run_if_due()

    def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield when there may be work or ended jobs; hints may be missed or come without a cause."""
        return self._broadcasts[topic].listen()
