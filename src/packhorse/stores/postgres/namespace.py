"""One namespace on one server: its layout, its connections and its time."""

from packhorse.errors import StoreClosed
from packhorse.model.clock import Clock
from packhorse.stores.postgres.database import HOT, Database, Row
from packhorse.stores.postgres.layout import Layout


class Namespace:
    """Runs statements by their name."""

    def __init__(self, database: Database, layout: Layout, *, clock: Clock | None, events: bool) -> None:
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

    async def write_soon(self, name: str, *params: object) -> list[Row]:
        """The same for what a worker repeats by itself: it is not waited for as long."""
        return await self.database.write(getattr(self.layout.statements, name), *params, timeout=HOT)
