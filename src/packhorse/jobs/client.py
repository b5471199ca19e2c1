"""Builds and stores the jobs of an app, and answers about them: what its tasks, queues, handles and schedules share."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar
from weakref import ref

from packhorse.audit.audit import Audit
from packhorse.jobs import user_connections
from packhorse.jobs.call import Call
from packhorse.jobs.enqueue_batcher import EnqueueBatcher
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.job import JobState
from packhorse.jobs.job_builder import JobBuilder
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.result_waiter import ResultWaiter
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId, named_id
from packhorse.model.job import NewJob, Receipt, StoredJob
from packhorse.stores.contract import Store
from packhorse.stores.url import shown

R = TypeVar("R")

_LOG = logging.getLogger("packhorse")


class LoopStore:
    """The open store of one event loop, with the batcher of its enqueues and the waiter for its results."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.batcher, self.waiter = store, EnqueueBatcher(store.jobs.enqueue), ResultWaiter(store, clock)
        self._life = self._lasting()

    async def begin(self) -> None:
        """Open the store."""
        await anext(self._life)

    async def end(self) -> None:
        """End all waiting for results with an error, and close the store."""
        await self._life.aclose()

    async def _lasting(self) -> AsyncGenerator[None, None]:
        # A loop that ends (asyncio.run) closes generators that are left on it, after its tasks: a worker can still hand
        # back its jobs, then the connections are closed.
        await self.store.open()
        try:
            yield
        finally:
            await self.waiter.close()
            await self.store.close()


class _ProcessStores:
    """The open stores of one process: one for each event loop, all cloned from a root that is never opened."""

    def __init__(self, root: Store) -> None:
        self.root, self.migrated = root, False
        self.recent: tuple[ref[asyncio.AbstractEventLoop], LoopStore] | None = None  # the loop that asked last
        self.opening: dict[asyncio.AbstractEventLoop, asyncio.Task[LoopStore]] = {}

    def forget_closed(self) -> None:
        """Let go of loops that have ended."""
        for loop in [loop for loop in tuple(self.opening) if loop.is_closed()]:
            self.opening.pop(loop, None)


class Client:
    """Keeps a store open for each event loop, for connections belong to a loop; anew after a fork."""

    def __init__(
        self,
        builder: JobBuilder,
        url: str,
        make_store: Callable[[], Store],
        *,
        clock: Clock,
        migrate: bool,
        user: str | None = None,
    ) -> None:
        self.builder, self.audit = builder, Audit(self.store, user)
        self._url, self._make_store, self._clock, self._migrate = url, make_store, clock, migrate
        self._processes = {os.getpid(): _ProcessStores(make_store())}

    # -- jobs

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store the job of one call."""
        [receipt] = await self.send([self.builder.build(call)], call.options.within)
        return self.handle(call, receipt)

    def enqueue_blocking(self, call: Call[R]) -> JobHandle[R]:
        """Store the job of one call from code without an event loop."""
        [receipt] = self.send_blocking([self.builder.build(call)], call.options.within)
        return self.handle(call, receipt)

    def handle(self, call: Call[R], receipt: Receipt) -> JobHandle[R]:
        """Make the handle of the job of a call."""
        return JobHandle(self, receipt.id, created=receipt.created, unpack=call.target.unpack_result)

    async def send(self, jobs: Sequence[NewJob], within: object | None = None) -> list[Receipt]:
        """Store jobs, all or none; within a transaction of the caller, if given."""
        here = await self.loop_store()
        if within is None:
            return await here.batcher.enqueue(jobs)
        return await user_connections.run(within, here.store.jobs.within().enqueue(jobs))

    def send_blocking(self, jobs: Sequence[NewJob], within: object | None = None) -> list[Receipt]:
        """Store jobs from code without an event loop; within a transaction, on the calling thread."""
        if within is None:
            return PORTAL.run(self.send(jobs))
        connection = user_connections.blocking(within)
        return connection.run(PORTAL.run(self.store()).jobs.within().enqueue(jobs))

    def job_id(self, text: str) -> JobId:
        """Give the id that a text names: the text of a UUID is a job id, any other text is a chosen id."""
        return named_id(self.builder.namespace, text)

    async def get(self, jobs: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
        """Read jobs; None for those that are not, or no longer, stored."""
        return await (await self.store()).jobs.get(jobs, bodies=bodies)

    async def ended(self, job: JobId, timeout: int | None) -> StoredJob | None:
        """Wait for the end of a job; None if it is not stored."""
        waiter = (await self.loop_store()).waiter
        async with asyncio.timeout(None if timeout is None else timeout / limits.SECOND):
            return await waiter.of(job)

    async def cancel(self, job: JobId) -> JobState:
        """Cancel a job, and answer its state."""
        [state] = await (await self.store()).jobs.cancel([job])
        return JobState.UNKNOWN if state is None else JobState(state.value)

    async def promote(self, job: JobId) -> bool:
        """Make a scheduled job ready now."""
        [promoted] = await (await self.store()).jobs.promote([job])
        return promoted

    async def replay(self, job: JobId) -> bool:
        """Make a dead or cancelled job ready again."""
        [replayed] = await (await self.store()).jobs.replay([job])
        return replayed

    # -- the store

    def root(self) -> Store:
        """The store that the others are cloned from; it is not open."""
        return self._process().root

    async def store(self) -> Store:
        """The store, open on this loop."""
        return (await self.loop_store()).store

    async def loop_store(self) -> LoopStore:
        """The open store of the running loop; the first call on a loop opens it, and brings its layout up to date."""
        loop, process = asyncio.get_running_loop(), self._process()
        if process.recent is not None and process.recent[0]() is loop:
            return process.recent[1]
        opening = process.opening.get(loop)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            process.forget_closed()
            opening = process.opening[loop] = loop.create_task(self._open())
        opened = opening.result() if opening.done() else await asyncio.shield(opening)
        if process.opening.get(loop) is opening:  # else it was closed meanwhile
            process.recent = (ref(loop), opened)
        return opened

    async def _open(self) -> LoopStore:
        process = self._process()
        store = process.root.clone()
        if self._migrate and not process.migrated:
            steps = await store.migrate()
            process.migrated = True
            if steps:
                _LOG.info("The layout of the store was brought up to date: %s", ", ".join(steps))
        opened = LoopStore(store, self._clock)
        await opened.begin()
        _LOG.debug("The store is open: %s", shown(self._url))
        return opened

    def _process(self) -> _ProcessStores:
        # What a parent had open before a fork is kept and never closed here: that would reach into the parent's loop.
        pid = os.getpid()
        found = self._processes.get(pid)
        return self._processes.setdefault(pid, _ProcessStores(self._make_store())) if found is None else found

    async def close(self) -> None:
        """Let go of the store on this loop; it is opened again when needed."""
        process = self._process()
        process.recent = None
        opening = process.opening.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).end()

    def __repr__(self) -> str:
        return f"<client of {shown(self._url)}>"
