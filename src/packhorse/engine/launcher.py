"""Where each attempt runs: on the event loop, in a thread, in a child process, or together with others."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from packhorse.engine.attempt import Attempt, Phase
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.executors.threads import Threads
from packhorse.engine.registry import Run
from packhorse.engine.transactions import Transactions
from packhorse.model.clock import Clock
from packhorse.model.job import EMPTY
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

OnEnd = Callable[[Attempt, Settlement | None], None]


class Launcher:
    """Starts attempts. ``tasks`` run on the loop, or wait there for a child; ``on_end`` is called with the end of each.
    ``in_threads`` have a thread or wait for one; ``finished_in_threads`` collects their ends, and ``wake`` is called for each.
    """

    def __init__(
        self,
        runner: AttemptRunner,
        transactions: Transactions,
        children: ChildPool | None,
        *,
        threads: int,
        clock: Clock,
        telemetry: Telemetry,
        on_end: OnEnd,
        wake: Callable[[], None],
    ) -> None:
        self.tasks: dict[Attempt, asyncio.Task[None]] = {}
        self.in_threads: set[Attempt] = set()
        self._created: dict[Attempt, None] = {}  # whose code has not begun: their tasks wait for the loop
        self.finished_in_threads: deque[tuple[Attempt, Settlement | None]] = deque()
        self._runner, self._transactions, self._children = runner, transactions, children
        self._clock, self._telemetry, self._on_end, self._wake = clock, telemetry, on_end, wake
        self._loop = asyncio.get_running_loop()
        self._threads: Threads[Attempt] = Threads(threads, self._in_thread)
        self._emits_starts = False

    # -- starting

    def start(self, attempt: Attempt) -> None:
        """Run an attempt; what its payload lacks is fetched first."""
        entry = attempt.entry
        if (
            attempt.payload is None
            and entry.fetch is not None
            and attempt.lease.headers != EMPTY
            and entry.fetch.wanted(attempt.lease.headers)
        ):
            self._created[attempt] = None
            self.as_task(attempt, self._fetched(attempt))
        elif entry.batching is not None:
            self._created[attempt] = None
            self.as_task(attempt, self._together(attempt))
        elif entry.run is Run.THREAD:
            attempt.phase = Phase.QUEUED_IN_THREAD
            self.in_threads.add(attempt)
            self._threads.put(attempt)
        else:
            self._created[attempt] = None
            self.as_task(attempt, self._on_loop(attempt) if entry.run is Run.ASYNC else self._in_process(attempt))

    def check_listeners(self) -> None:
        """Ask whether anybody wants to hear of starts: once for many jobs, because every start would ask."""
        self._emits_starts = self._telemetry.wants(EventName.STARTED)

    def as_task(self, attempt: Attempt, run: Coroutine[Any, Any, None]) -> None:
        """Run this on the loop in the place of an attempt."""
        for one in attempt.followers:
            one.phase = Phase.STARTING
        attempt.phase = Phase.STARTING
        self.tasks[attempt] = self._loop.create_task(run, context=contextvars.Context())

    async def _fetched(self, attempt: Attempt) -> None:
        ended = await self._runner.fetch(attempt)
        if self._created.pop(attempt, True):
            for one in attempt.with_followers:
                self._on_end(one, _back(one))
        elif attempt.payload is None:
            self._on_end(attempt, ended)
        else:
            del self.tasks[attempt]
            self.start(attempt)

    async def _on_loop(self, attempt: Attempt) -> None:
        if self._created.pop(attempt, True) or self._clock.steady() > attempt.valid_until:
            self._on_end(attempt, _back(attempt))
            return
        if self._emits_starts:
            self._emit_start(attempt)
        run = self._runner.run if attempt.entry.transaction is None else self._transactions.run
        self._on_end(attempt, await run(attempt))

    async def _together(self, leader: Attempt) -> None:
        if self._created.pop(leader, True) or self._clock.steady() > leader.valid_until:
            for attempt in leader.with_followers:
                self._on_end(attempt, _back(attempt))
            return
        if self._emits_starts:
            for attempt in leader.with_followers:
                self._emit_start(attempt)
        settlements = await self._runner.run_together(leader.with_followers)
        for attempt, settlement in zip(leader.with_followers, settlements, strict=True):
            self._on_end(attempt, settlement)

    async def _in_process(self, attempt: Attempt) -> None:
        assert self._children is not None  # a worker without an origin has no such task
        if self._created.pop(attempt, True) or self._clock.steady() > attempt.valid_until:
            self._on_end(attempt, _back(attempt))
            return
        if self._emits_starts:
            self._emit_start(attempt)
        self._on_end(attempt, await self._runner.run_apart(attempt, self._children))

    def _in_thread(self, attempt: Attempt) -> None:
        attempt.started_at = self._clock.steady()
        if attempt.started_at > attempt.valid_until:
            settlement: Settlement | None = _back(attempt)
        else:
            if self._emits_starts:
                self._emit_start(attempt)
            run = self._runner.run_here if attempt.entry.transaction is None else self._transactions.run_here
            settlement = contextvars.Context().run(run, attempt)
        self.finished_in_threads.append((attempt, settlement))
        self._wake()

    def _emit_start(self, attempt: Attempt) -> None:
        self._telemetry.emit(EventName.STARTED, lease=attempt.lease)

    # -- ending

    def take_back(self) -> list[Attempt]:
        """What no thread has begun; it will not be run. From any thread."""
        return self._threads.take_back()

    def take_created(self) -> list[Attempt]:
        """Take out attempts whose code has not begun on a blocked loop; it will not be run. From any thread."""
        taken = []
        for attempt in tuple(self._created):
            if self._created.pop(attempt, True) is None:  # whoever pops an attempt, the loop or the keeper, has it
                taken += attempt.with_followers
        return taken

    def close(self) -> None:
        """Let the threads end, and cancel what runs on the loop; what does not stop is abandoned."""
        self._threads.stop()
        for task in self.tasks.values():
            task.cancel()

    def running_in(self, task: "asyncio.Task[object] | None") -> Attempt | None:
        """The attempt that a task of the loop runs; called by the keeper, from its thread."""
        return next((attempt for attempt, its in tuple(self.tasks.items()) if its is task), None)


def _back(attempt: Attempt) -> Settlement:
    """The settlement of an attempt that does not begin: its lease is over, or the keeper has given it back, who is first."""
    return Settlement(attempt.lease, Again(charged=False))
