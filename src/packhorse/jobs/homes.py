"""The store of an app: one for each event loop, for connections belong to a loop; and anew after a fork."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from weakref import ref

from packhorse.jobs.ends import Ends
from packhorse.jobs.trips import Trips
from packhorse.model.clock import Clock
from packhorse.stores.contract import Store
from packhorse.stores.url import shown

_LOG = logging.getLogger("packhorse")


class Home:
    """The store on one loop, open, who takes jobs to it, and who waits there for their ends."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.trips, self.ends = store, Trips(store.jobs.enqueue), Ends(store, clock)
        self._life = self._lasting()

    async def begin(self) -> None:
        """Open the store."""
        await anext(self._life)

    async def end(self) -> None:
        """Tell waiters that the app was closed, and close the store."""
        await self._life.aclose()

    async def _lasting(self) -> AsyncGenerator[None, None]:
        # A loop that ends (asyncio.run) closes generators that are left on it, after its tasks: a worker can still hand
        # back its jobs, then the connections are closed.
        await self.store.open()
        try:
            yield
        finally:
            await self.ends.close()
            await self.store.close()


class _Process:
    """What is open in one process: a store to make others from, and one of those on each loop."""

    def __init__(self, root: Store) -> None:
        self.root, self.migrated = root, False
        self.recent: tuple[ref[asyncio.AbstractEventLoop], Home] | None = None  # found without a look at the others
        self.homes: dict[asyncio.AbstractEventLoop, asyncio.Task[Home]] = {}

    def forget_closed(self) -> None:
        """Let go of loops that have ended."""
        for loop in [loop for loop in tuple(self.homes) if loop.is_closed()]:
            self.homes.pop(loop, None)


class Homes:
    """Opens the store when it is first needed on a loop, and brings its layout up to date unless told not to."""

    def __init__(self, url: str, make: Callable[[], Store], *, clock: Clock, migrate: bool) -> None:
        self._url, self._make, self._clock, self._migrate = url, make, clock, migrate
        self._processes = {os.getpid(): _Process(make())}

    def _process(self) -> _Process:
        # What a parent had open before a fork is kept and never closed here: that would reach into the parent's loop.
        pid = os.getpid()
        found = self._processes.get(pid)
        return self._processes.setdefault(pid, _Process(self._make())) if found is None else found

    def root(self) -> Store:
        """The store the others are made from; it is not open."""
        return self._process().root

    async def here(self) -> Home:
        """The home on the running loop."""
        loop, process = asyncio.get_running_loop(), self._process()
        if process.recent is not None and process.recent[0]() is loop:
            return process.recent[1]
        homes = process.homes
        opening = homes.get(loop)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            process.forget_closed()
            opening = homes[loop] = loop.create_task(self._open())
        home = opening.result() if opening.done() else await asyncio.shield(opening)
        if homes.get(loop) is opening:  # else it was closed meanwhile
            process.recent = (ref(loop), home)
        return home

    async def _open(self) -> Home:
        process = self._process()
        store = process.root.twin()
        if self._migrate and not process.migrated:
            steps = await store.migrate()
            process.migrated = True
            if steps:
                _LOG.info("The layout of the store was brought up to date: %s", ", ".join(steps))
        home = Home(store, self._clock)
        await home.begin()
        _LOG.debug("The store is open: %s", shown(self._url))
        return home

    async def close(self) -> None:
        """Let go of the store on this loop; it is opened again when needed."""
        process = self._process()
        process.recent = None
        opening = process.homes.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).end()
