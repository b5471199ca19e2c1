"""Makes the workers of an app: the worker of its queues, and what runs beside it in the process."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec

from packhorse.audit.duties import trim_audit
from packhorse.engine.attempt_runner import Middleware
from packhorse.engine.caretaker import Duty
from packhorse.engine.observed_runner import runner_maker
from packhorse.engine.worker import Settings, Worker
from packhorse.jobs.client import Client
from packhorse.jobs.registry import AppRegistry
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.codec import Codec
from packhorse.schedules.duties import duties
from packhorse.schedules.failure_events import failed
from packhorse.schedules.registry import Schedules
from packhorse.stores.contract import Store
from packhorse.system_queue import SYSTEM_QUEUE, SystemQueue, SystemWorker
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.integration import Integrations

SYSTEM_CONCURRENCY = 4
SYSTEM_GRACE_US = 5 * limits.SECOND
LOOK_PERIOD_US = 3 * limits.SECOND

Companion = AbstractAsyncContextManager[object]
"""Something that runs beside a worker, from before it starts until after it has stopped."""


@dataclass(frozen=True, slots=True)
class WorkerFactory:
    """Makes a worker for settings. ``companions`` make what else runs beside each worker."""

    client: Client
    registry: AppRegistry
    schedules: Schedules
    system: SystemQueue
    telemetry: Telemetry
    middleware: tuple[Middleware, ...]
    integrations: Integrations
    codec: Codec
    clock: Clock
    companions: list[Callable[[Worker], Companion]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.integrations.listen(self.telemetry, self.schedules.rule)

    async def make(self, settings: Settings) -> tuple[Worker, list[Companion]]:
        """Make a worker, not started, and its companions."""
        store = await self.client.store()
        await self.schedules.declare()
        more = [
            *duties(self.client, store, self.telemetry),
            trim_audit(store),
            *self.system.duties(store),
            Duty("look for system jobs", LOOK_PERIOD_US, lambda: system.look(store)),
        ]
        worker = self._worker(store, self.registry, settings, more)
        system = self._system_worker(store, worker)
        return worker, [system, *(make(worker) for make in self.companions)]

    def _system_worker(self, store: Store, beside: Worker) -> SystemWorker:
        settings = msgspec.structs.replace(
            beside.settings,
            queues={SYSTEM_QUEUE: 1},
            concurrency=SYSTEM_CONCURRENCY,
            queue_concurrency={},
            name=f"{beside.name} system",
            grace=min(beside.settings.grace, SYSTEM_GRACE_US),
            origin=None,
        )
        return SystemWorker(
            beside,
            lambda: self._worker(store, self.system.registry, settings, ()),
            required=self.system.required,
            telemetry=self.telemetry,
            clock=self.clock,
        )

    def _worker(self, store: Store, registry: AppRegistry, settings: Settings, more: Sequence[Duty]) -> Worker:
        return Worker(
            store,
            registry,
            settings,
            telemetry=self.telemetry,
            middleware=self.middleware,
            make_runner=runner_maker(self.integrations),
            more_duties=more,
            on_dead=failed,
            codec=self.codec,
            clock=self.clock,
        )
