"""Where a part of the worker runs: on a thread and an event loop of its own, or beside the rest on one loop."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

Run = Callable[[], Awaitable[None]]


class Runner(Protocol):
    """Somewhere to run something until it is stopped."""

    def start(self, name: str, run: Run) -> None:
        """Begin."""

    async def stop(self) -> None:
        """Cancel it and wait for its end."""


class LoopRunner:
    """A task beside the others: for tests and simulations, where one clock is turned for all."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, name: str, run: Run) -> None:
        """Begin on the running loop."""
        self._task = asyncio.create_task(_until_cancelled(run), name=name)

    async def stop(self) -> None:
        """Cancel it and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class ThreadRunner:
    """A daemon thread with a loop: it goes on while the other loop is blocked."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = threading.Event()

    def start(self, name: str, run: Run) -> None:
        """Begin on a new thread."""

        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            self._begun.set()
            await _until_cancelled(run)

        self._thread = threading.Thread(target=lambda: asyncio.run(main()), name=name, daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Cancel it and wait for its end, but not for ever: a daemon does not keep the process."""
        if self._thread is None:
            return
        await asyncio.to_thread(self._begun.wait, 5)
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(self._thread.join, 5)


async def _until_cancelled(run: Run) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await run()
