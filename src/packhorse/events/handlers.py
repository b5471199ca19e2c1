"""Functions that workers call with what they see of jobs: ``@app.on("dead")``."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from packhorse.engine.wakeup import first
from packhorse.engine.worker import Settings, Worker
from packhorse.events.event import JobEvent
from packhorse.events.filter import event_filter
from packhorse.events.handler import EventHandler
from packhorse.events.seen import only_seen, seen, sources
from packhorse.jobs.client import Client
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import EventName

MIN_GRACE_US: Final = limits.SECOND

Handle = TypeVar("Handle", bound=Callable[[JobEvent], Any])


class EventHandlers:
    """The functions of an app that are called in its worker processes, and where they are called: on one loop."""

    def __init__(self, client: Client, telemetry: Telemetry, clock: Clock) -> None:
        self.clock = clock
        self._client, self._telemetry = client, telemetry
        self._handlers: list[EventHandler] = []
        self._by_source: dict[EventName, tuple[EventHandler, ...]] = {}
        self._loops: list[asyncio.AbstractEventLoop] = []  # of workers; the first one has the handlers

    def __call__(self, *names: str, queue: str | None = None, task: str | None = None) -> Callable[[Handle], Handle]:
        """Call a function in each worker process with the events of these names that the process itself sees.

        They come at once, with all that the worker knows, at most once, and with ``failed`` and the other words that
        ``app.events`` takes. The function may be async or plain; it holds up no job, and its failure harms none.
        """
        wanted = only_seen(event_filter(names, queue, task), named=bool(names))

        def register(function: Handle) -> Handle:
            find = partial(self._client.get, bodies=False)
            self._add(EventHandler(function, wanted, find, self.clock, self._telemetry))
            return function

        return register

    def beside(self, worker: Worker) -> "HandlersBeside":
        """What calls the functions while a worker runs."""
        return HandlersBeside(self, worker)

    @asynccontextmanager
    async def running(self, grace: int = Settings().grace) -> AsyncIterator[None]:
        """Call the functions inside, without a worker of the app that does."""
        loop = asyncio.get_running_loop()
        self.enter(loop)
        try:
            yield
        finally:
            await self.leave(loop, grace)

    def _add(self, handler: EventHandler) -> None:
        self._handlers.append(handler)
        for source in sources(handler.wanted):
            if source not in self._by_source:
                self._telemetry.on(self._take, source)
            self._by_source[source] = (*self._by_source.get(source, ()), handler)
        if self._loops:
            self._loops[0].call_soon_threadsafe(handler.start)

    def _take(self, name: EventName, fields: Fields) -> None:
        """Queue what telemetry tells; on the thread where it happened."""
        if self._loops:
            for event in seen(name, fields, self.clock.now()):
                for handler in self._by_source[name]:
                    handler.put(event)

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that a worker starts on a loop."""
        self._loops.append(loop)
        if self._loops[0] is loop:
            self._start()

    async def leave(self, loop: asyncio.AbstractEventLoop, grace: int) -> None:
        """Note that a worker of a loop has stopped; after the last of them the functions get the grace for what is queued."""
        if self._loops.count(loop) > 1 or self._loops[0] is not loop:
            self._loops.remove(loop)
            return
        await first(self._finish(), self.clock.sleep(grace))
        for handler in self._handlers:
            await handler.stop()
        self._loops.remove(loop)
        if self._loops:
            with suppress(RuntimeError):  # that loop is closed
                self._loops[0].call_soon_threadsafe(self._start)

    async def _finish(self) -> None:
        await asyncio.gather(*(handler.finish() for handler in self._handlers))

    def _start(self) -> None:
        for handler in self._handlers:
            handler.start()


class HandlersBeside:
    """Calls the functions of an app from before a worker starts until after it has stopped."""

    def __init__(self, handlers: EventHandlers, worker: Worker) -> None:
        self._handlers, self._worker = handlers, worker
        self._clock = handlers.clock
        self._stopped_at: int | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._handlers.enter(self._loop)
        self._noting = asyncio.create_task(self._note_stop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._noting.cancel()
        grace = self._worker.settings.grace
        if self._stopped_at is not None:
            grace -= self._clock.steady() - self._stopped_at
        await self._handlers.leave(self._loop, max(grace, MIN_GRACE_US))

    async def _note_stop(self) -> None:
        await self._worker.stopped()
        self._stopped_at = self._clock.steady()
