"""Where the machine's stores stand: one place for each test, empty for each example."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.testing.clock import START_US, TurnedClock
from tests.conftest import SERVERS, address, namespace, wipe

T = TypeVar("T")


class Rewound(TurnedClock):
    """A clock that begins anew with every example."""

    def rewind(self) -> None:
        self._now = START_US


class Ground:
    """Two clients of a store of one kind (what lives in memory has only one), all on one event loop.

    On a server they stay open from example to example and only what they stored is wiped.
    """

    def __init__(self, kind: str, folder: Path, wrap: Callable[[Store], Store] = lambda store: store) -> None:
        self.kind, self.folder, self.wrap = kind, folder, wrap
        self.runner = asyncio.Runner()
        self.clock = Rewound()
        self.opened: list[Store] = []
        self.examples = 0

    def open(self) -> tuple[TurnedClock, Sequence[Store]]:
        """A clock that stands at its start, and the clients of an empty store."""
        self.examples += 1
        self.clock.rewind()
        self.run(self.emptied())
        return self.clock, [self.wrap(store) for store in self.opened]

    async def emptied(self) -> None:
        folder = self.folder / str(self.examples)
        folder.mkdir()
        url, name = address(self.kind, folder), namespace(self.kind)
        await wipe(self.kind, url, name)
        clients = 1 if self.kind == "memory" else 2
        stores = self.opened or [open_store(url, namespace=name, clock=self.clock) for _ in range(clients)]
        await stores[0].migrate()
        if not self.opened:
            for store in stores:
                await store.open()
            self.opened = stores

    def run(self, call: Awaitable[T]) -> T:
        """Await a call on the loop of this ground."""

        async def awaited() -> T:
            return await call

        return self.runner.get_loop().run_until_complete(awaited())

    def close(self) -> None:
        """The example is over."""
        if self.kind not in SERVERS:
            self.leave_stores()

    def leave_stores(self) -> None:
        opened, self.opened = self.opened, []
        for store in opened:
            self.run(store.close())

    def leave(self) -> None:
        """The test is over."""
        self.leave_stores()
        self.runner.close()
