"""The app: registers tasks and queues, opens the store, wires everything. The only module that knows every room."""

import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from packhorse import config
from packhorse.engine.attempt import Middleware
from packhorse.engine.worker import MIN_LEASE_US, Settings, Worker
from packhorse.jobs.call import Call
from packhorse.jobs.desk import Desk
from packhorse.jobs.flows import Flow
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.homes import Homes
from packhorse.jobs.making import TaskMaker, TaskSaying
from packhorse.jobs.options import Saying, check_names, options
from packhorse.jobs.queue import Queue
from packhorse.jobs.registry import AppRegistry
from packhorse.jobs.search import Search
from packhorse.jobs.sending import Parcel, send
from packhorse.jobs.task import AsyncTask, PlainTask
from packhorse.jobs.view import Job, Status
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.codec import Codec
from packhorse.model.duration import Duration, micros
from packhorse.model.ids import parse_id
from packhorse.model.page import Page
from packhorse.model.rule import Rule
from packhorse.schedules.alarm import failed
from packhorse.schedules.book import Schedules
from packhorse.schedules.declaring import Scheduling
from packhorse.schedules.duty import duties
from packhorse.schedules.owner import makers, owner_name
from packhorse.schedules.schedule import Policies
from packhorse.stores import NAMESPACE, open_store
from packhorse.stores.contract import Store
from packhorse.stores.url import shown
from packhorse.telemetry import logs
from packhorse.telemetry.emit import Telemetry

if TYPE_CHECKING:
    from packhorse.sync import SyncApp

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Everything that belongs together: tasks, queues, and the store they live in.

    Without an address, ``PACKHORSE_URL`` is read, else a SQLite file in the working directory is used. The options stand
    for all jobs unless a queue, a task or a call says otherwise. The store is opened, and its layout brought up to
    date, when it is first needed on a loop; ``migrate=False`` leaves the layout to ``packhorse migrate``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        release: str | None = None,
        middleware: Sequence[Middleware] = (),
        migrate: bool | None = None,
        clock: Clock | None = None,
        **said: Unpack[Saying],
    ) -> None:
        check_names(said, Saying.__annotations__)
        self.url = config.url(url)
        self.namespace = config.setting("namespace", namespace, NAMESPACE)
        self.release: str | None = config.setting("release", release, None)
        self.telemetry = Telemetry()
        logs.listen(self.telemetry)
        self._clock = clock or SYSTEM
        self._middleware = tuple(middleware)
        self._codec = Codec()
        self._homes = Homes(
            self.url,
            partial(open_store, self.url, namespace=self.namespace, clock=clock),
            clock=self._clock,
            migrate=config.setting("migrate", migrate, True),
        )
        self.desk = Desk(self.namespace, self._homes.here, codec=self._codec, app=options(**said))
        self.registry = AppRegistry(self.desk, self._homes.root)
        made_by = makers(inspect.currentframe())[1:]
        self.schedules = Schedules(
            self.desk, release=self.release, telemetry=self.telemetry, owner=partial(owner_name, self, made_by)
        )
        self._queues: dict[str, Queue] = {}
        self.found_at: str | None = None  # module:attribute, where a command was told to find this app

    # -- the store

    async def open(self) -> None:
        """Open the store on this loop now, instead of when it is first needed."""
        await self._homes.here()

    async def close(self) -> None:
        """Let go of the store on this loop; it is opened again when needed."""
        await self._homes.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def store(self) -> Store:
        """The store, open on this loop."""
        return (await self._homes.here()).store

    # -- registering

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, /, **said: Unpack[TaskSaying]) -> TaskMaker: ...
    def task(self, function: Callable[..., Any] | None = None, /, **said: Any) -> Any:
        """Register a function as a task; with or without options."""
        maker = TaskMaker(self.desk, self.registry, **said)
        return maker if function is None else maker(function)

    def schedule(self, *rules: Rule, name: str | None = None, **said: Unpack[Policies]) -> Scheduling:
        """Run a function by these rules: a task, or a function that becomes one. It may take the ``Tick``.

        Several rules make as many schedules, each with ticks of its own, and so do several of these decorators. They are
        stored when a worker of the app starts.
        """
        return Scheduling(self.schedules, TaskMaker(self.desk, self.registry), rules, name, said)

    def queue(self, name: str, *, per_key: int | None = None, **said: Unpack[Saying]) -> Queue:
        """A queue by its name; what is said about its jobs is remembered. ``per_key`` jobs of a key run at once."""
        check_names(said, Saying.__annotations__)
        queue = self._queues.setdefault(name, Queue(self.desk, self.registry, name))
        self.desk.say(name, options(**said), per_key)
        return queue

    # -- jobs

    @overload
    async def enqueue(self, one: Call[A] | Flow[A], /, *, within: object | None = ...) -> tuple[JobHandle[A]]: ...
    @overload
    async def enqueue(
        self, one: Call[A] | Flow[A], two: Call[B] | Flow[B], /, *, within: object | None = ...
    ) -> tuple[JobHandle[A], JobHandle[B]]: ...
    @overload
    async def enqueue(
        self,
        one: Call[A] | Flow[A],
        two: Call[B] | Flow[B],
        three: Call[C] | Flow[C],
        /,
        *,
        within: object | None = ...,
    ) -> tuple[JobHandle[A], JobHandle[B], JobHandle[C]]: ...
    @overload
    async def enqueue(
        self, *calls: Call[Any] | Flow[Any], within: object | None = ...
    ) -> tuple[JobHandle[Any], ...]: ...
    async def enqueue(self, *calls: Call[Any] | Flow[Any], within: object | None = None) -> tuple[JobHandle[Any], ...]:
        """Enqueue several calls, of any tasks and queues, all or none.

        ``within`` a connection or session of yours, they are part of its transaction: there if and when it commits.
        """
        parcel = Parcel(calls, within)
        return tuple(parcel.handles(await send(self.desk, parcel.jobs, parcel.within)))

    def job(self, id: str) -> JobHandle[Any]:
        """The handle of a job by its id, wherever it was enqueued."""
        return JobHandle(self.desk, parse_id(id))

    async def find(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: Status | str | None = None,
        reason: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        header: tuple[str, Any] | None = None,
        error: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Look for jobs, a bounded look at a time: a page may be short or empty, its cursor says where to go on.

        ``header`` is a name and a value, ``error`` a part of the type or message of a failure.
        """
        wanted = Search(
            queue=queue,
            task=task,
            state=state,
            reason=reason,
            key=key,
            tenant=tenant,
            header=header,
            error=error,
            since=since,
        )
        page = await (await self.store()).jobs.find(wanted.filter, limit=limit, cursor=cursor)
        found = [Job(stored) for stored in page.items]
        return Page(tuple(job for job in found if wanted.fits(job)), page.cursor)

    # -- workers

    def worker(
        self,
        queues: str | Sequence[str] | Mapping[str, int] | None = None,
        *,
        concurrency: int | None = None,
        slots: Mapping[str, int] | None = None,
        lease: Duration | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> "AppWorker":
        """A worker for these queues (with weights, if a mapping), or for all that this app names."""
        defaults = Settings()
        settings = Settings(
            queues=self._weights(queues),
            concurrency=config.setting("concurrency", concurrency, defaults.concurrency),
            slots=dict(slots or {}),
            lease=defaults.lease if lease is None else micros(lease, "lease", low=MIN_LEASE_US),
            grace=micros(
                config.setting("grace", None if grace is None else f"{micros(grace)}us", f"{defaults.grace}us")
            ),
            name=config.setting("worker_name", name, ""),
            release=self.release,
            origin=self._origin(),
        )
        return AppWorker(self, settings)

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue that this app names: ``default``, those of tasks and handlers, and those it asked for by name."""
        return tuple(dict.fromkeys(("default", *self.registry.queues, *self._queues)))

    def _weights(self, queues: str | Sequence[str] | Mapping[str, int] | None) -> dict[str, int]:
        if queues is None:
            return dict.fromkeys(self.queues, 1)
        if isinstance(queues, str):
            return {queues: 1}
        return dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, 1)

    def _origin(self) -> str | None:
        """Where a child process finds this app and its tasks: modules, and its name in the first; None if nowhere.

        What the command was given comes first: that module may prepare what the others need when they are imported.
        """
        modules = self.registry.modules
        if not modules:
            return None
        place = self.found_at or self._place(modules)
        if place is None:
            return None
        module, _, name = place.partition(":")
        return f"{','.join(dict.fromkeys((module, *modules)))}:{name}"

    def _place(self, modules: Sequence[str]) -> str | None:
        """A module that holds this app, one of these if possible, and its name there."""
        for module in dict.fromkeys((*modules, *sys.modules)):
            held = {} if module == "__main__" else getattr(sys.modules.get(module), "__dict__", {})
            for name, value in tuple(held.items()):
                if value is self:
                    return f"{module}:{name}"
        return None

    @property
    def sync(self) -> "SyncApp":
        """The same for code without an event loop."""
        from packhorse.sync import SyncApp

        return SyncApp(self)

    def __repr__(self) -> str:
        return f"<app at {shown(self.url)}>"


class AppWorker:
    """A worker of an app: ``await worker.run()``, or ``async with worker:`` beside other code of the loop."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._worker: Worker | None = None

    async def _made(self) -> Worker:
        app = self._app
        store = await app.store()
        await app.schedules.declare()
        self._worker = Worker(
            store,
            app.registry,
            self._settings,
            telemetry=app.telemetry,
            middleware=app._middleware,
            more_duties=duties(app.desk, store, app.telemetry),
            deaths=failed,
            codec=app._codec,
            clock=app._clock,
        )
        return self._worker

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; what runs may end within the grace, a second signal stops it now."""
        await (await self._made()).run()

    def stop(self) -> None:
        """Take no more jobs and come to an end; said again, without waiting for what runs."""
        if self._worker is not None:
            self._worker.stop()

    async def __aenter__(self) -> Worker:
        return await (await self._made()).__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            await self._worker.__aexit__(kind, error, trace)
