"""Where each attempt runs: on the event loop, in a thread, in a child process, or together with others."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from packhorse.engine.attempt import Attempts
from packhorse.engine.context import Context
from packhorse.engine.executors.process import Children
from packhorse.engine.executors.threads import Threads
from packhorse.engine.registry import Run
from packhorse.engine.transactions import Transactions
from packhorse.model.clock import Clock
from packhorse.model.job import EMPTY
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import Name

Left = Callable[[Context, Settlement | None], None]


class Launcher:
    """Starts attempts. ``tasks`` run on the loop, or wait there for a child; ``left`` is called with the end of each.
    ``threaded`` have a thread or wait for one; ``gone`` collects their ends, and ``wake`` is called for each.
    """

    def __init__(
        self,
        attempts: Attempts,
        transactions: Transactions,
        children: Children | None,
        *,
        threads: int,
        clock: Clock,
        telemetry: Telemetry,
        left: Left,
        wake: Callable[[], None],
    ) -> None:
        self.tasks: dict[Context, asyncio.Task[None]] = {}
        self.threaded: set[Context] = set()
        self._created: dict[Context, None] = {}  # tasks that wait for their first turn of the loop
        self.gone: deque[tuple[Context, Settlement | None]] = deque()
        self._attempts, self._transactions, self._children = attempts, transactions, children
        self._clock, self._telemetry, self._left, self._wake = clock, telemetry, left, wake
        self._loop = asyncio.get_running_loop()
        self._threads: Threads[Context] = Threads(threads, self._in_thread)
        self._telling = False

    # -- starting

    def start(self, ctx: Context) -> None:
        """Run an attempt; what its payload lacks is fetched first."""
        entry = ctx.entry
        if (
            ctx.payload is None
            and entry.fetch is not None
            and ctx.lease.headers != EMPTY
            and entry.fetch.wanted(ctx.lease.headers)
        ):
            self.as_task(ctx, self._fetched(ctx))
        elif entry.batching is not None:
            self._created[ctx] = None
            self.as_task(ctx, self._together(ctx))
        elif entry.run is Run.THREAD:
            self.threaded.add(ctx)
            self._threads.put(ctx)
        else:
            self._created[ctx] = None
            self.as_task(ctx, self._on_loop(ctx) if entry.run is Run.ASYNC else self._in_process(ctx))

    def look_who_listens(self) -> None:
        """Ask whether anybody wants to hear of starts: once for many jobs, because every start would ask."""
        self._telling = self._telemetry.wants(Name.STARTED)

    def as_task(self, ctx: Context, run: Coroutine[Any, Any, None]) -> None:
        """Run this on the loop in the place of an attempt."""
        self.tasks[ctx] = self._loop.create_task(run, context=contextvars.Context())

    async def _fetched(self, ctx: Context) -> None:
        ended = await self._attempts.fetch(ctx)
        if ctx.payload is None:
            self._left(ctx, ended)
        else:
            del self.tasks[ctx]
            ctx.entered = False
            self.start(ctx)

    async def _on_loop(self, ctx: Context) -> None:
        if self._created.pop(ctx, True):
            self._left(ctx, _back(ctx))
            return
        self._tell_start(ctx)
        run = self._attempts.run if ctx.entry.transaction is None else self._transactions.run
        self._left(ctx, await run(ctx))

    async def _together(self, leader: Context) -> None:
        if self._created.pop(leader, True):
            for ctx in leader.together:
                self._left(ctx, _back(ctx))
            return
        for ctx in leader.together:
            self._tell_start(ctx)
        settlements = await self._attempts.run_together(leader.together)
        for ctx, settlement in zip(leader.together, settlements, strict=True):
            self._left(ctx, settlement)

    async def _in_process(self, ctx: Context) -> None:
        assert self._children is not None  # a worker without an origin has no such task
        if self._created.pop(ctx, True):
            self._left(ctx, _back(ctx))
            return
        self._tell_start(ctx)
        self._left(ctx, await self._attempts.run_apart(ctx, self._children))

    def _in_thread(self, ctx: Context) -> None:
        ctx.begun = self._clock.steady()
        if ctx.begun > ctx.valid_until:
            settlement: Settlement | None = _back(ctx)
        else:
            self._tell_start(ctx)
            run = self._attempts.run_here if ctx.entry.transaction is None else self._transactions.run_here
            settlement = contextvars.Context().run(run, ctx)
        self.gone.append((ctx, settlement))
        self._wake()

    def _tell_start(self, ctx: Context) -> None:
        if self._telling:
            self._telemetry.emit(Name.STARTED, lease=ctx.lease)

    # -- ending

    def take_back(self) -> list[Context]:
        """What no thread has begun; it will not be run. From any thread."""
        return self._threads.take_back()

    def take_created(self) -> list[Context]:
        """What waits for its first turn of a loop that is blocked; it will not be run. From any thread."""
        taken = []
        for ctx in tuple(self._created):
            if self._created.pop(ctx, True) is None:  # whoever pops an attempt, the loop or the keeper, has it
                taken += ctx.together
        return taken

    def close(self) -> None:
        """Let the threads end, and cancel what runs on the loop; what does not stop is left behind."""
        self._threads.stop()
        for task in self.tasks.values():
            task.cancel()

    def running_in(self, task: "asyncio.Task[object] | None") -> Context | None:
        """The attempt that a task of the loop runs; called by the keeper, from its thread."""
        return next((ctx for ctx, its in tuple(self.tasks.items()) if its is task), None)


def _back(ctx: Context) -> Settlement:
    """The settlement of an attempt that did not begin; where the keeper has given it back before, it is dropped."""
    return Settlement(ctx.lease, Again(charged=False))
