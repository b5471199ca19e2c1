"""One namespace on one server: its layout, its connections and its time."""

from packhorse.errors import StoreClosed
from packhorse.model.clock import Clock
from packhorse.stores.postgres.database import WORKER_CALL_SECONDS, PostgresDatabase, Row
from packhorse.stores.postgres.layout import Layout


class Namespace:
    """Runs statements and functions by their name."""

    def __init__(self, database: PostgresDatabase, layout: Layout, *, clock: Clock | None, events: bool) -> None:
        self.database = database
        self.layout = layout
        self.events = events
        self._clock = clock
        self._identity: str | None = None

    @property
    def identity(self) -> str:
        """By what the database is known from a connection of somebody else's."""
        if self._identity is None:
            raise StoreClosed("The store is not open: call `await store.open()` first")
        return self._identity

    def is_known_as(self, identity: str) -> None:
        """Remember by what the database is known."""
        self._identity = identity

    def now(self) -> int | None:
        """The moment given by a test's clock; without one the server's own time rules."""
        return self._clock.now() if self._clock else None

    async def read(self, name: str, *params: object) -> list[Row]:
        """The rows of a statement that changes nothing."""
        return await self.database.read(getattr(self.layout.statements, name), *params)

    async def write(self, name: str, *params: object) -> list[Row]:
        """The rows of a statement that changes something."""
        return await self.database.write(getattr(self.layout.statements, name), *params)

    async def call(self, function: str, *params: object) -> list[Row]:
        """The rows of an entry point of the function set."""
        return await self.database.write(self.layout.functions.call(function, len(params)), *params)

    async def call_soon(self, function: str, *params: object) -> list[Row]:
        """The same for what a worker repeats by itself: it is not waited for as long."""
        return await self.database.write(
            self.layout.functions.call(function, len(params)), *params, timeout=WORKER_CALL_SECONDS
        )
