"""One function that is called with events: in their order, never by the code that makes them."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from packhorse.engine.executors.threads import Threads
from packhorse.engine.wakeup import Wakeup
from packhorse.errors import InvalidOption, StoreError
from packhorse.events.event import JobEvent
from packhorse.events.filter import EventFilter
from packhorse.events.seen import SeenEvent
from packhorse.model.clock import Clock
from packhorse.model.ids import JobId
from packhorse.model.job import StoredJob
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

MAX_QUEUED: Final = 10_000
TAKEN_AT_ONCE: Final = 100

Find = Callable[[Sequence[JobId]], Awaitable[Sequence[StoredJob | None]]]


class EventHandler:
    """A function with the events that wait for it."""

    def __init__(
        self, function: Callable[[JobEvent], Any], wanted: EventFilter, find: Find, clock: Clock, telemetry: Telemetry
    ) -> None:
        self.wanted, self.name = wanted, _checked_name(function)
        self._function, self._is_async = function, _is_async(function)
        self._find, self._clock, self._telemetry = find, clock, telemetry
        self._queue: deque[SeenEvent] = deque()
        self._taken: deque[JobEvent] = deque()
        self._dropped = 0
        self._wakeup: Wakeup | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def put(self, event: SeenEvent) -> None:
        """Queue an event if it may be wanted; from any thread. A full queue drops it, which is counted and reported."""
        if not event.may_be_wanted_by(self.wanted):
            return
        if len(self._queue) >= MAX_QUEUED:
            self._drop(1)
            return
        self._queue.append(event)
        if self._wakeup is not None:
            self._wakeup.set_threadsafe()

    def start(self) -> None:
        """Begin to call the function, on the running loop."""
        if self._task is None:
            self._stopping, self._wakeup = False, Wakeup(self._clock)
            self._task = asyncio.create_task(self._run(self._wakeup), name="packhorse-handler")

    async def finish(self) -> None:
        """Wait until the function was called for all events that are queued."""
        self._stopping = True
        if self._task is not None and self._wakeup is not None:
            self._wakeup.set()
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Call the function no more, and drop what is queued."""
        task, self._task, self._wakeup = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if left := len(self._taken) + len(self._queue):
            self._drop(left)
        self._taken.clear()
        self._queue.clear()

    async def _run(self, wakeup: Wakeup) -> None:
        threads = Threads(1, self._call_in_thread)
        try:
            while self._taken or self._queue or not self._stopping:
                if self._taken:
                    await self._call(self._taken.popleft(), threads)
                elif self._queue:
                    await self._take()
                else:
                    await wakeup.wait()
        finally:
            threads.stop()

    async def _take(self) -> None:
        """Take the next events, with what the store knows of the jobs that the worker does not know."""
        some = [*islice(self._queue, TAKEN_AT_ONCE)]
        unknown = [job for job in dict.fromkeys(event.unknown_job for event in some) if job is not None]
        found: dict[JobId, StoredJob] = {}
        if unknown:
            with suppress(StoreError):  # they come without it
                found = {job.id: job for job in await self._find(unknown) if job is not None}
        for _ in some:
            self._queue.popleft()
        self._taken.extend(event for event in (each.event(found) for each in some) if self.wanted.wants(event))

    async def _call(self, event: JobEvent, threads: "Threads[_ThreadCall]") -> None:
        try:
            if self._is_async:
                await self._function(event)
            else:
                done = asyncio.get_running_loop().create_future()
                threads.put((event, done))
                await done
        except asyncio.CancelledError as error:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            self._failed(error)  # by the function itself
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the user's code
            self._failed(error)

    def _call_in_thread(self, call: "_ThreadCall") -> None:
        event, done = call
        failure: BaseException | None = None
        try:
            self._function(event)
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            done.get_loop().call_soon_threadsafe(_resolve, done, failure)

    def _failed(self, error: BaseException) -> None:
        self._telemetry.emit(EventName.HANDLER_FAILED, detail=self.name, error=error)

    def _drop(self, count: int) -> None:
        before, self._dropped = self._dropped, self._dropped + count
        if len(str(self._dropped)) > len(str(before)) or not before:  # at 1, 10, 100 and so on
            self._telemetry.emit(EventName.EVENTS_DROPPED, detail=self.name, count=self._dropped)


_ThreadCall = tuple[JobEvent, "asyncio.Future[None]"]


def _resolve(done: "asyncio.Future[None]", failure: BaseException | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure if isinstance(failure, Exception) else RuntimeError(repr(failure)))


def _is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - asked whether it is async
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _checked_name(function: object) -> str:
    if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption("handler", function, "give a function that takes the event")
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"
