"""Warm child processes that run attempts and can be killed in the middle of them."""

import asyncio
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from packhorse.engine.attempt import Attempt
from packhorse.engine.executors import frames
from packhorse.engine.executors.child_process import ChildDied, ChildNotStarted, ChildProcess
from packhorse.engine.judge import Cause
from packhorse.engine.registry import Entry
from packhorse.engine.wakeup import first
from packhorse.errors import ConfigError
from packhorse.model import limits
from packhorse.model.backoff import Backoff
from packhorse.model.clock import Clock
from packhorse.model.lease import Settlement
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

CLOSING_ERROR = "the worker is closing"
CANCEL_GRACE_US = 5 * limits.SECOND
START_TIMEOUT_US = 60 * limits.SECOND  # to import what it runs; longer is taken for stuck
BACKOFF = Backoff(base=limits.SECOND // 10, cap=30 * limits.SECOND)


class ChildPool:
    """Up to ``size`` children of one origin: ``module:attribute`` of a registry, or of an app that has one.

    Each runs one attempt at a time. They start when there is something to run, stay warm, and are replaced after
    ``recycle_jobs`` attempts, above ``recycle_rss`` bytes of memory, and when they die. For use on one event loop.
    """

    def __init__(
        self,
        origin: str,
        *,
        size: int,
        clock: Clock,
        telemetry: Telemetry,
        recycle_jobs: int = 1000,
        recycle_rss: int | None = None,
        cancel_grace: int = CANCEL_GRACE_US,
    ) -> None:
        if os.name != "posix":
            raise ConfigError("Child processes need Linux or macOS: run such tasks in threads here")
        check_origin(origin)
        limits.within("children", size, 1, 10_000)
        limits.within("recycle_jobs", recycle_jobs, 1, 1_000_000_000)
        self._origin, self._size = origin, size
        self._clock, self._telemetry = clock, telemetry
        self._recycle_jobs, self._recycle_rss = recycle_jobs, recycle_rss
        self._grace = cancel_grace
        self._folder = Path.cwd()
        self._children: set[ChildProcess] = set()
        self._idle: list[ChildProcess] = []
        self._waiting: deque[asyncio.Future[ChildProcess]] = deque()
        self._starts: set[asyncio.Task[Any]] = set()
        self._failures, self._not_before = 0, 0
        self._closed = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes there are."""
        return tuple(child.pid for child in self._children if child.pid)

    async def call(self, attempt: Attempt, payload: bytes, headers: bytes | None = None) -> Settlement | None:
        """Run one attempt in a child, which judges it; None: it is no longer ours.

        The payload is that of the lease without its seals; headers replace those of the lease. Cancelling this call
        kills the child with its whole process group at once, unless ``attempt.stop_cause`` says that the job was
        called off: then the attempt is asked to end, and killed after the grace or at a second cancellation. What is
        raised is left to the caller to judge: CancelledError; ChildDied, if the child died in the middle of the
        attempt; ChildNotStarted and ConfigError, if no child can run it.
        """
        check_entry(attempt.entry)
        while True:
            child = await self._take()
            fresh = child.jobs == 0
            try:
                return await self._run(child, attempt, payload, headers)
            except ChildDied as error:
                # That one died while it had nothing to do may come out by calling it; then nothing was begun.
                if error.begun or fresh:
                    raise
            finally:
                self._give_back(child)

    async def _run(
        self, child: ChildProcess, attempt: Attempt, payload: bytes, headers: bytes | None
    ) -> Settlement | None:
        if attempt.start_timeout is not None and attempt.timer is None:
            attempt.start_timeout()
        left = None if attempt.deadline is None else max(0, attempt.deadline - self._clock.steady())
        headers = attempt.lease.headers if headers is None else headers
        lease = msgspec.structs.replace(attempt.lease, payload=payload, headers=headers)
        answer = child.call(frames.CallFrame(lease, left), attempt)
        try:
            frame = await asyncio.shield(answer)
        except asyncio.CancelledError:
            if attempt.stop_cause is not Cause.CANCEL:
                raise
            child.send(frames.Stop(attempt.stop_cause))
            await first(_wait(answer), self._clock.sleep(self._grace))
            if not answer.done() or answer.exception() is not None:
                raise
            frame = answer.result()
        if isinstance(frame, frames.Settled):
            return frames.settlement(attempt.lease, frame)
        raise ConfigError(
            f"Child processes that load {self._origin!r} do not know the task {attempt.lease.task!r}: "
            "define it in a module that is imported with the app, and give it a name"
        )

    async def warm(self, count: int) -> None:
        """Start children ahead, and wait until so many are there or starting fails."""
        while not (self._failures or self._closed) and self._staying() < min(count, self._size):
            self._start()
        while self._starts and not self._failures:
            await asyncio.wait(self._starts, return_when=asyncio.FIRST_COMPLETED)

    async def close(self, grace: int = limits.SECOND) -> None:
        """Take no more calls, let running ones end within the grace and kill the rest; then no child is left."""
        self._closed = True
        self._refuse(CLOSING_ERROR)
        while self._idle:
            self._idle.pop().quit(self._grace, CLOSING_ERROR)
        gone = [child.gone for child in self._children]
        if gone:
            await first(_wait(*gone), self._clock.sleep(grace))
        for child in tuple(self._children):
            child.kill(CLOSING_ERROR)
        await _wait(*gone)
        for start in self._starts:
            start.cancel()
        await _wait(*self._starts)

    # -- who runs what

    async def _take(self) -> ChildProcess:
        if self._closed:
            raise ChildNotStarted(self._origin, CLOSING_ERROR)
        if self._idle:
            return self._idle.pop()
        waiter: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._grow()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())  # it was handed over in the very moment of the cancellation
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _offer(self, child: ChildProcess) -> None:
        if not child.free:
            return
        if self._closed:
            child.quit(self._grace, CLOSING_ERROR)
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(child)
                return
        self._idle.append(child)

    def _refuse(self, why: str) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                delay = max(0, self._not_before - self._clock.steady())
                waiter.set_exception(ChildNotStarted(self._origin, why, delay))  # each its own, for its own traceback

    def _give_back(self, child: ChildProcess) -> None:
        if not child.free:
            child.kill("its attempt was stopped")
        elif child.jobs >= self._recycle_jobs:
            self._recycle(child, "jobs")
        elif self._recycle_rss is not None and child.memory > self._recycle_rss:
            self._recycle(child, "memory")
        else:
            self._offer(child)

    def _recycle(self, child: ChildProcess, reason: str) -> None:
        child.quit(self._grace, "it was to be replaced")
        self._telemetry.emit(EventName.CHILD_RECYCLED, reason=reason, count=child.jobs)
        self._grow()

    # -- how many there are

    def _staying(self) -> int:
        return sum(not child.leaving for child in self._children)

    def _grow(self) -> None:
        """Start children for those who wait while there is room; one at a time once a start has failed."""
        while not self._closed and len(self._starts) < len(self._waiting) and self._staying() < self._size:
            if self._failures and self._starts:
                return
            self._start()

    def _start(self) -> None:
        child = ChildProcess(self._origin, self._clock, self._left)
        self._children.add(child)
        start = asyncio.get_running_loop().create_task(self._bring_up(child))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)

    async def _bring_up(self, child: ChildProcess) -> None:
        try:
            if self._failures:
                await self._clock.sleep(max(0, self._not_before - self._clock.steady()))
            if not child.gone.done():
                await child.start(_path(self._folder), self._folder, START_TIMEOUT_US)
                self._failures = 0
                self._offer(child)
        except ChildNotStarted as error:
            self._failures += 1
            self._not_before = self._clock.steady() + BACKOFF.delay(self._failures, 0.5)
            self._telemetry.emit(EventName.CHILD_DIED, error=error, failures=self._failures)
            self._refuse(error.why)
        finally:
            if (task := asyncio.current_task()) is not None:
                self._starts.discard(task)  # at once: who comes next must not count on this start
            self._grow()

    def _left(self, child: ChildProcess) -> None:
        """A child is gone."""
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        if child.death is not None:
            self._telemetry.emit(EventName.CHILD_DIED, lease=child.lease, error=child.death)
        self._grow()


def check_origin(origin: str) -> None:
    """Refuse what a child process could not load."""
    modules, _, attribute = origin.partition(":")
    if not (modules and attribute):
        raise ConfigError(f"{origin!r} does not say where the tasks are: give module:attribute, like shop.tasks:app")
    if "__main__" in modules.split(","):
        raise ConfigError(f"A child process cannot load {origin!r}: move the app and its tasks to a module")


def check_entry(entry: Entry) -> None:
    """Refuse a task that a child process could not find."""
    if getattr(entry.call, "__module__", None) == "__main__":
        raise ConfigError(
            f"The task {entry.name!r} cannot run in a child process, its function is defined in __main__: "
            "move it to a module and import it from there"
        )


def _path(folder: Path) -> tuple[str, ...]:
    """Where modules are found, as another process understands it."""
    return tuple(os.fspath(folder / part) for part in sys.path)


async def _wait(*futures: "asyncio.Future[Any]") -> None:
    """Wait until all have ended, however they did."""
    if futures:
        await asyncio.wait(futures)
