"""The queue of Packhorse's own jobs, and the small worker that runs it beside the worker of a process.

Own jobs are dead letters to handle, alerts to deliver and bulk actions. They have a queue of their own, so that a worker
of one queue keeps its short path through the exchange.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from packhorse.engine.caretaker import Duty
from packhorse.engine.wakeup import first
from packhorse.engine.worker import Worker
from packhorse.jobs.decorators import TaskKeywords, TaskMaker
from packhorse.jobs.registry import AppRegistry
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

SYSTEM_QUEUE = "packhorse.system"
RESTART_US = 10 * limits.SECOND


class SystemQueue:
    """Own tasks of an app, whether its processes run them from their start, and the duties that make their jobs."""

    def __init__(self, client: "Client") -> None:
        self.registry = AppRegistry(client, client.root)
        self.required = False
        self._client = client
        self._duties: list[Callable[[Store], Duty]] = []

    def task(self, **options: Unpack[TaskKeywords]) -> TaskMaker:
        """Make a function a task of this queue: ``@system.task(name="packhorse.…")``."""
        options["queue"] = SYSTEM_QUEUE
        return TaskMaker(self._client, self.registry, **options)

    def require(self) -> None:
        """Let worker processes of the app run the queue from their start; otherwise they do once it holds jobs."""
        self.required = True

    def add_duty(self, make: Callable[[Store], Duty]) -> None:
        """Add a duty to every worker of the app that starts from now on."""
        self._duties.append(make)

    def duties(self, store: Store) -> list[Duty]:
        """Make the duties for one worker."""
        return [make(store) for make in self._duties]


class SystemWorker:
    """Runs the system queue from when it is needed until the worker beside it stops."""

    def __init__(
        self, beside: Worker, make: Callable[[], Worker], *, required: bool, telemetry: Telemetry, clock: Clock
    ) -> None:
        self._beside, self._make, self._telemetry, self._clock = beside, make, telemetry, clock
        self._needed, self._left = asyncio.Event(), asyncio.Event()
        if required:
            self._needed.set()

    async def look(self, store: Store) -> bool:
        """Start running the queue if it holds jobs to run; the duty of the worker beside it."""
        if self._needed.is_set():
            return False
        for state in (State.READY, State.SCHEDULED):
            found = await store.jobs.find(Filter(queue=SYSTEM_QUEUE, state=state), limit=1, bodies=False)
            if found.items:
                self._needed.set()
        return False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="packhorse-system")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        await self._task

    async def _run(self) -> None:
        await first(self._needed.wait(), self._over())
        while not (self._beside.stopping or self._left.is_set()):
            try:
                async with self._make() as worker:
                    await first(self._over(), worker.stopped())
            except Exception as failure:  # noqa: BLE001 - the jobs of users go on without it
                self._telemetry.emit(EventName.DUTY_FAILED, detail="run the system queue", error=failure)
                await first(self._over(), self._clock.sleep(RESTART_US))

    async def _over(self) -> None:
        """Wait until the worker beside it stops, or is left because it could not start."""
        await first(self._beside.stopped(), self._left.wait())
