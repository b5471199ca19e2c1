"""The worker of an app, as user code holds it."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from packhorse.engine.context import Context
from packhorse.engine.worker import Settings, Worker
from packhorse.errors import ConfigError
from packhorse.worker_factory import Companion


class AppWorker:
    """A worker of an app: ``await worker.run()``, or ``async with worker:`` beside other code of the loop."""

    def __init__(
        self, settings: Settings, make: Callable[[Settings], Awaitable[tuple[Worker, list[Companion]]]]
    ) -> None:
        self.settings, self._make = settings, make
        self._worker: Worker | None = None
        self._running = AsyncExitStack()

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Running jobs get the grace to end; a second signal stops them now."""
        self._worker, companions = await self._make(self.settings)
        async with AsyncExitStack() as stack:
            for companion in companions:
                await stack.enter_async_context(companion)
            await self._worker.run()

    async def __aenter__(self) -> Self:
        self._worker, companions = await self._make(self.settings)
        async with AsyncExitStack() as stack:
            for each in (*companions, self._worker):
                await stack.enter_async_context(each)
            self._running = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.__aexit__(kind, error, trace)

    def stop(self) -> None:
        """Take no more jobs, and end when the running ones have ended; a second call does not wait for them."""
        if self._worker is not None:
            self._worker.stop()

    async def stopped(self) -> None:
        """Wait until the worker takes no more jobs: it was stopped, or a part of it failed."""
        await self._started.stopped()

    async def idle(self) -> None:
        """Wait until no job runs and the store has no more to run; the failure of the worker ends the wait."""
        await self._started.idle()

    @property
    def name(self) -> str:
        """The name of the worker in logs, events and ``packhorse workers``."""
        return self._started.name

    @property
    def running(self) -> tuple[Context, ...]:
        """The contexts of the attempts that run now."""
        return () if self._worker is None else self._worker.running

    @property
    def stopping(self) -> bool:
        """Whether the worker takes no more jobs."""
        return self._worker is not None and self._worker.stopping

    @property
    def silence(self) -> int:
        """Microseconds since the store last answered this worker: a health check compares it with the lease."""
        return self._started.silence

    @property
    def _started(self) -> Worker:
        if self._worker is None:
            raise ConfigError("The worker has not started: use `async with app.worker() as worker:`")
        return self._worker


def origin(app: object, modules: Sequence[str], found_at: str | None) -> str | None:
    """Give the name by which a child process finds an app and its tasks: modules, and the app's name in the first.

    ``found_at``, where a command found the app, comes first: its module may prepare what the others need when they are
    imported. None if no module holds the app, or if it has no tasks.
    """
    if not modules:
        return None
    name = found_at or _name_of(app, modules)
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    return f"{','.join(dict.fromkeys((module, *modules)))}:{attribute}"


def _name_of(app: object, modules: Sequence[str]) -> str | None:
    """Give ``module:attribute`` of an app, in one of these modules if possible."""
    for module in dict.fromkeys((*modules, *sys.modules)):
        held = {} if module == "__main__" else getattr(sys.modules.get(module), "__dict__", {})
        for name, value in tuple(held.items()):
            if value is app:
                return f"{module}:{name}"
    return None
