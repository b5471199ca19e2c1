"""The store on Redis or Valkey."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn

from packhorse.errors import NoTransactions
from packhorse.model.clock import Clock
from packhorse.model.finding import Finding
from packhorse.model.layout import Step
from packhorse.model.lease import Exchange
from packhorse.stores.contract import Leaving, Topic
from packhorse.stores.redis import examine, layout, wakes
from packhorse.stores.redis.fleet import Fleet
from packhorse.stores.redis.jobs import Jobs
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.mending import Mending
from packhorse.stores.redis.queues import Queues
from packhorse.stores.redis.records import Records
from packhorse.stores.redis.scripts import Scripts
from packhorse.stores.redis.streams import Streams
from packhorse.stores.redis.wakes import Bell
from packhorse.stores.sql.migrate import standing


class RedisStore:
    """All state in the keys of one namespace on one server."""

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
        self.jobs = Jobs(self._keyspace)
        self.queues = Queues(self._keyspace)
        self.records = Records(self._keyspace)
        self.streams = Streams(self._keyspace)
        self.fleet = Fleet(self._keyspace)
        self._mending = Mending(self._keyspace)
        self._bells = {
            Topic.WORK: Bell(lambda: wakes.work(self._keyspace)),
            Topic.ENDS: Bell(lambda: wakes.ends(self._keyspace)),
        }

    async def open(self) -> None:
        """Connect, and refuse a layout that is missing, too old or newer than this release, saying what to do."""
        self._keyspace.connections.open()
        try:
            await layout.check_settings(self._keyspace)
            await layout.check_steps(self._keyspace)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of everything; a closed store refuses calls, and closing twice is harmless."""
        for bell in self._bells.values():
            await bell.stop()
        await self._keyspace.connections.close()

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken."""
        async with self._connected():
            return await layout.take_steps(self._keyspace)

    async def steps(self) -> list[Step]:
        """Answer the steps of the layout in order, each with its text and how it stands."""
        async with self._connected():
            return standing(layout.steps(), await layout.taken_steps(self._keyspace))

    async def examine(self) -> list[Finding]:
        """Answer what is in force on the server."""
        async with self._connected():
            return await examine.findings(self._keyspace.connections)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        """Let calls through for a while, also if the store is not open."""
        connections = self._keyspace.connections
        was_closed = connections.is_closed()
        connections.open()
        try:
            yield
        finally:
            if was_closed:
                await connections.close()

    async def ping(self) -> int:
        """Answer with the store's time."""
        return await self._keyspace.now()

    def twin(self) -> "RedisStore":
        """Answer a second store of the same place, with connections of its own."""
        return self._make()

    def transaction(self, limit: int) -> NoReturn:  # noqa: ARG002
        """Refuse: what a handler writes elsewhere cannot be committed with what is stored here."""
        raise NoTransactions(
            "a store on Redis has none; keep the store in the database that the handler writes to (SQLite or PostgreSQL), "
            "or write without transaction= and let current().idempotency_key tell a repeat"
        )

    async def maintain(self) -> list[str]:
        """Put right what was touched by hand, and answer what that was: use leaves nothing behind."""
        return await self._mending.look()

    def wakes(
        self, topic: Topic, leaving: Leaving | None = None, worker: bytes | None = None
    ) -> AsyncIterator[Exchange | None]:
        """Yield whenever there may be something to look for; hints may be missed or come for nothing."""
        if topic is Topic.WORK and leaving is not None:
            return wakes.work(self._keyspace, leaving, worker)
        return self._bells[topic].heard()
