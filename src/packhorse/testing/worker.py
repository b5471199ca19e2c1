"""Run jobs in a test until no job is ready or due."""

from collections.abc import Callable, Sequence
from typing import overload

from packhorse.app import App
from packhorse.engine.attempt_runner import AttemptRunner, Middleware
from packhorse.engine.observed_runner import runner_maker
from packhorse.engine.registry import Registry
from packhorse.engine.runners import LoopRunner
from packhorse.engine.settlement_queue import DeadHook, no_effects
from packhorse.engine.worker import Settings, Worker
from packhorse.model import limits
from packhorse.model.clock import SYSTEM, Clock
from packhorse.schedules.failure_events import failed
from packhorse.stores.contract import Store
from packhorse.system_queue import SYSTEM_QUEUE
from packhorse.telemetry.emit import Telemetry


@overload
async def run_until_idle(app: App, /, *, settings: Settings | None = None) -> None: ...
@overload
async def run_until_idle(
    store: Store,
    registry: Registry,
    /,
    settings: Settings | None = None,
    *,
    clock: Clock = SYSTEM,
    telemetry: Telemetry | None = None,
    middleware: Sequence[Middleware] = (),
    make_runner: Callable[..., AttemptRunner] = AttemptRunner,
    on_dead: DeadHook = no_effects,
) -> None: ...
async def run_until_idle(
    place: Store | App,
    registry: Registry | None = None,
    /,
    settings: Settings | None = None,
    *,
    clock: Clock = SYSTEM,
    telemetry: Telemetry | None = None,
    middleware: Sequence[Middleware] = (),
    make_runner: Callable[..., AttemptRunner] = AttemptRunner,
    on_dead: DeadHook = no_effects,
) -> None:
    """Run every job that is ready or due, and what those jobs enqueue; retries that are due later stay scheduled.

    Given an app, it also makes the dead letters of jobs that died, runs their handlers and all other jobs of Packhorse
    itself, and calls the functions of ``@app.on``. Given a store and a registry of tasks, it runs these tasks alone.
    Without ``settings``, it runs every queue: ``default``, those that the registry names, and those that hold jobs.
    """
    if isinstance(place, App):
        await _run_app(place, settings)
        return
    assert registry is not None

    async def run(settings: Settings) -> None:
        worker = Worker(
            place,
            registry,
            settings,
            telemetry=telemetry,
            middleware=middleware,
            make_runner=make_runner,
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
    served, queues = set[str](), {"default", *registry.queues, *await _queues(place)}
    while queues > served:
        served |= queues
        await run(Settings(queues=dict.fromkeys(sorted(served), 1)))
        queues = served.union(await _queues(place))


async def _run_app(app: App, settings: Settings | None) -> None:
    """Run the jobs of an app, its duties and its own jobs in turn, until nothing has changed."""
    async with app.on.running():
        await _run_jobs(app, settings)


async def _run_jobs(app: App, settings: Settings | None) -> None:
    store, made = await app.store(), app.workers
    duties = app.system.duties(store)
    before = None
    while (now := await _totals(store)) != before:
        before = now
        for registry, chosen in ((app.registry, settings), (app.system.registry, _SYSTEM)):
            await run_until_idle(
                store,
                registry,
                chosen,
                clock=made.clock,
                telemetry=app.telemetry,
                middleware=made.middleware,
                make_runner=runner_maker(made.integrations),
                on_dead=failed,
            )
            if registry is app.registry:
                for duty in duties:
                    while await duty.run():
                        pass


async def _queues(store: Store) -> set[str]:
    """The queues of users that hold jobs."""
    return {queue for queue in await store.jobs.count() if not queue.startswith(limits.RESERVED)}


async def _totals(store: Store) -> dict[str, object]:
    """What changes whenever a job is enqueued or ends."""
    return {each.name: (each.total_enqueued, each.total_ended) for each in await store.queues.stats()}


_SYSTEM = Settings(queues={SYSTEM_QUEUE: 1})


def _middle() -> float:
    """Return the same number each time, so that backoffs have no jitter."""
    return 0.5
