"""Run jobs in a test until no job is ready or due."""

from collections.abc import Sequence

from packhorse.engine.attempt_runner import Middleware
from packhorse.engine.registry import Registry
from packhorse.engine.runners import LoopRunner
from packhorse.engine.settlement_queue import DeadHook, no_effects
from packhorse.engine.worker import Settings, Worker
from packhorse.model.clock import SYSTEM, Clock
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry


async def run_until_idle(
    store: Store,
    registry: Registry,
    settings: Settings | None = None,
    *,
    clock: Clock = SYSTEM,
    telemetry: Telemetry | None = None,
    middleware: Sequence[Middleware] = (),
    on_dead: DeadHook = no_effects,
) -> None:
    """Run every job that is ready or due, and what those jobs enqueue; retries that are due later stay scheduled.

    Without ``settings``, it runs every queue: ``default``, those that the registry names, and those that hold jobs.
    """

    async def run(settings: Settings) -> None:
        worker = Worker(
            store,
            registry,
            settings,
            telemetry=telemetry,
            middleware=middleware,
            on_dead=on_dead,
            clock=clock,
            chance=_middle,
            place=LoopRunner,
        )
        async with worker:
            await worker.idle()

    if settings is not None:
        await run(settings)
        return
    served, queues = set[str](), {"default", *registry.queues, *await store.jobs.count()}
    while queues > served:
        served |= queues
        await run(Settings(queues=dict.fromkeys(sorted(served), 1)))
        queues = served.union(await store.jobs.count())


def _middle() -> float:
    """Return the same number each time, so that backoffs have no jitter."""
    return 0.5
