"""The store of an app: one for each event loop, for connections belong to a loop; and anew after a fork."""

import asyncio
import logging
import os
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref

from packhorse.jobs.ends import Ends
from packhorse.jobs.trips import Trips
from packhorse.model.clock import Clock
from packhorse.stores.contract import Store
from packhorse.telemetry import logs

_LOG = logging.getLogger("packhorse")


class Home:
    """The store on one loop, open, who takes jobs to it, and who waits there for their ends."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.trips, self.ends = store, Trips(store.jobs.enqueue), Ends(store, clock)


class _Process:
    """What is open in one process: a store to make others from, and one of those on each loop."""

    def __init__(self, root: Store) -> None:
        self.root, self.migrated = root, False
        self.recent: tuple[ref[asyncio.AbstractEventLoop], Home] | None = None  # found without a look at the others
        self.homes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Home]] = WeakKeyDictionary()


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
        await store.open()
        _LOG.debug("The store is open: %s", logs.redacted(self._url))
        return Home(store, self._clock)

    async def close(self) -> None:
        """Let go of the store on this loop; it is opened again when needed."""
        process = self._process()
        process.recent = None
        opening = process.homes.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            home = await opening
            await home.ends.close()
            await home.store.close()
