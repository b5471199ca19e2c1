"""The app: registers tasks and queues, opens the store, wires everything. The only module that knows every room."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from packhorse import config
from packhorse.alerts.registry import Alerts
from packhorse.app_worker import AppWorker, origin
from packhorse.bulk.bulk import Bulk
from packhorse.dead_letters.dead_jobs import DeadJobs
from packhorse.dead_letters.registry import DeadLetterHandlers
from packhorse.dead_letters.seen import SeenMarks
from packhorse.engine.attempt_runner import Middleware
from packhorse.engine.failures import Fingerprint
from packhorse.engine.policy import Kinds
from packhorse.engine.registry import Run
from packhorse.engine.worker import MIN_LEASE_US, Settings
from packhorse.events.handlers import EventHandlers
from packhorse.events.stream import Events
from packhorse.jobs.call import Call
from packhorse.jobs.decorators import TaskKeywords, TaskMaker
from packhorse.jobs.enqueue_request import EnqueueRequest
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.job import Job, JobState
from packhorse.jobs.observed_client import client_for
from packhorse.jobs.options import JobKeywords, Keep, OptionLevels, Unique, job_options, with_named_options
from packhorse.jobs.plans import Plan
from packhorse.jobs.queue import Queue
from packhorse.jobs.registry import AppRegistry
from packhorse.jobs.search import Search
from packhorse.jobs.task import AsyncTask, LaneOnDead, PlainTask, RunName
from packhorse.model.backoff import Backoff
from packhorse.model.clock import SYSTEM, Clock
from packhorse.model.codec import Codec
from packhorse.model.duration import Duration, micros
from packhorse.model.page import Page
from packhorse.model.rule import Rule
from packhorse.schedules.decorators import Scheduling
from packhorse.schedules.owner import makers, owner_name
from packhorse.schedules.registry import Schedules
from packhorse.schedules.schedule import Policies
from packhorse.stores import NAMESPACE, anchored, open_store
from packhorse.stores.contract import Store
from packhorse.stores.url import shown
from packhorse.system_queue import SystemQueue
from packhorse.telemetry import logs
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.integration import Integration, Integrations
from packhorse.worker_factory import WorkerFactory

if TYPE_CHECKING:
    from packhorse.sync import SyncApp

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


class App:
    """Everything that belongs together: tasks, queues, and the store they live in.

    Without an address, ``PACKHORSE_URL`` is read, else a SQLite file in the working directory is used. The options apply
    to all jobs unless a queue, a task or a call has others. The store is opened, and its layout brought up to date, when
    it is first needed on a loop; ``migrate=False`` leaves that to ``packhorse migrate``. ``integrations`` trace jobs.
    """

    @with_named_options
    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        release: str | None = None,
        middleware: Sequence[Middleware] = (),
        integrations: Sequence[Integration] = (),
        migrate: bool | None = None,
        clock: Clock | None = None,
        attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
        keep_done: Keep | int | None = None,
        keep_dead: Keep | int | None = None,
    ) -> None:
        options = job_options(
            JobKeywords(
                attempts=attempts,
                backoff=backoff,
                timeout=timeout,
                priority=priority,
                keep_done=keep_done,
                keep_dead=keep_dead,
            )
        )
        self.url = anchored(config.url(url))
        self.namespace = config.setting("namespace", namespace, NAMESPACE)
        self.release: str | None = config.setting("release", release, None)
        self.telemetry = Telemetry()
        logs.listen(self.telemetry)
        self._clock, codec = clock or SYSTEM, Codec()
        self.integrations = Integrations(integrations, self._clock)
        self.client = client_for(
            self.integrations,
            (self.namespace, codec, OptionLevels(options)),
            self.url,
            partial(open_store, self.url, namespace=self.namespace, clock=clock),
            clock=self._clock,
            migrate=config.setting("migrate", migrate, True),
            user=config.setting("user", None, None),
        )
        self.audit, self.events = self.client.audit, Events(self.client.store)
        self.on = EventHandlers(self.client, self.telemetry, self._clock)
        self.registry, self.system = AppRegistry(self.client, self.client.root), SystemQueue(self.client)
        self.bulk, seen = Bulk(self.client, self.system), SeenMarks(self.client)
        self.dead_letters = DeadLetterHandlers(self.client, self.system, seen)
        self.dead = DeadJobs(self.client, self.registry, self.bulk, seen)
        made_by = makers(inspect.currentframe())[2:]  # without this function and the check of its options
        owner = partial(owner_name, self, made_by)
        self.schedules = Schedules(self.client, release=self.release, telemetry=self.telemetry, owner=owner)
        self.alerts = Alerts(
            self.client, self.system, self.dead_letters, self.release, self.telemetry, self._clock, owner
        )
        self.workers = WorkerFactory(
            self.client,
            self.registry,
            self.schedules,
            self.system,
            self.telemetry,
            tuple(middleware),
            self.integrations,
            codec,
            self._clock,
            [self.on.beside],
        )
        self._queues: dict[str, Queue] = {}
        self.found_at: str | None = None  # module:attribute, where a command found this app

    # -- the store

    async def open(self) -> None:
        """Open the store on this loop now instead of at the first call."""
        await self.client.loop_store()

    async def close(self) -> None:
        """Close the store on this loop; the next call opens it again."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def store(self) -> Store:
        """The store, open on this loop."""
        return await self.client.store()

    # -- registering

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskKeywords]) -> TaskMaker: ...
    @with_named_options
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        aliases: Sequence[str] = (),
        retry_on: Kinds = (),
        dead_on: Kinds = (),
        unique: Unique | Duration | None = None,
        run: Run | RunName | None = None,
        lane_on_dead: LaneOnDead = "continue",
        transaction: bool | Callable[[], Any] = False,
        fingerprint: Fingerprint | None = None,
        attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
        keep_done: Keep | int | None = None,
        keep_dead: Keep | int | None = None,
    ) -> Any:
        """Register a function as a task; with or without options."""
        maker = TaskMaker(
            self.client,
            self.registry,
            name=name,
            queue=queue,
            aliases=aliases,
            retry_on=retry_on,
            dead_on=dead_on,
            unique=unique,
            run=run,
            lane_on_dead=lane_on_dead,
            transaction=transaction,
            fingerprint=fingerprint,
            attempts=attempts,
            backoff=backoff,
            timeout=timeout,
            priority=priority,
            keep_done=keep_done,
            keep_dead=keep_dead,
        )
        return maker if function is None else maker(function)

    def schedule(self, *rules: Rule, name: str | None = None, **options: Unpack[Policies]) -> Scheduling:
        """Run a function by these rules: a task, or a function that becomes one. It may take the ``Tick``.

        Several rules make as many schedules, each with ticks of its own, and so do several of these decorators. They are
        stored when a worker of the app starts.
        """
        return Scheduling(self.schedules, TaskMaker(self.client, self.registry), rules, name, options)

    @with_named_options
    def queue(
        self,
        name: str,
        *,
        per_key: int | None = None,
        attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
        keep_done: Keep | int | None = None,
        keep_dead: Keep | int | None = None,
    ) -> Queue:
        """Give a queue by its name; options given here apply to all its jobs. ``per_key`` jobs of a key run at once."""
        options = job_options(
            JobKeywords(
                attempts=attempts,
                backoff=backoff,
                timeout=timeout,
                priority=priority,
                keep_done=keep_done,
                keep_dead=keep_dead,
            )
        )
        queue = self._queues.setdefault(name, Queue(self.client, self.registry, name))
        self.client.builder.levels.add_queue(name, options, per_key)
        return queue

    # -- jobs

    @overload
    async def enqueue(self, one: Call[A] | Plan[A], /, *, within: object | None = ...) -> tuple[JobHandle[A]]: ...
    @overload
    async def enqueue(
        self, one: Call[A] | Plan[A], two: Call[B] | Plan[B], /, *, within: object | None = ...
    ) -> tuple[JobHandle[A], JobHandle[B]]: ...
    @overload
    async def enqueue(
        self,
        one: Call[A] | Plan[A],
        two: Call[B] | Plan[B],
        three: Call[C] | Plan[C],
        /,
        *,
        within: object | None = ...,
    ) -> tuple[JobHandle[A], JobHandle[B], JobHandle[C]]: ...
    @overload
    async def enqueue(
        self, *calls: Call[Any] | Plan[Any], within: object | None = ...
    ) -> tuple[JobHandle[Any], ...]: ...
    async def enqueue(self, *calls: Call[Any] | Plan[Any], within: object | None = None) -> tuple[JobHandle[Any], ...]:
        """Enqueue several calls, of any tasks and queues, all or none.

        ``within`` a connection or session of yours, they are part of its transaction: stored if and when it commits.
        """
        return tuple(await EnqueueRequest(self.client, calls, within).send())

    def job(self, id: str) -> JobHandle[Any]:
        """Give the handle of a job by its id, or by its chosen id; the store is not asked.

        The text of a UUID is the id of a job. Any other text is an id that you chose with ``using(id=…)``.
        """
        return JobHandle(self.client, self.client.job_id(id))

    async def find(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: JobState | str | None = None,
        reason: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        header: tuple[str, Any] | None = None,
        error: str | None = None,
        enqueued_after: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Find a page of jobs. A page may be short or empty: there are more as long as it has a cursor.

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
            enqueued_after=enqueued_after,
        )
        return await wanted.page(self.client, limit, cursor)

    def jobs(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: JobState | str | None = None,
        reason: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        header: tuple[str, Any] | None = None,
        error: str | None = None,
        enqueued_after: datetime | None = None,
    ) -> AsyncIterator[Job]:
        """Find all jobs that match, page by page: ``async for job in app.jobs(state="dead")``. Filters as in ``find``."""
        wanted = Search(
            queue=queue,
            task=task,
            state=state,
            reason=reason,
            key=key,
            tenant=tenant,
            header=header,
            error=error,
            enqueued_after=enqueued_after,
        )
        return wanted.jobs(self.client)

    # -- workers

    def worker(
        self,
        queues: str | Sequence[str] | Mapping[str, int] | None = None,
        *,
        concurrency: int | None = None,
        queue_concurrency: Mapping[str, int] | None = None,
        lease: Duration | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> AppWorker:
        """A worker for these queues (with weights, if a mapping), or for all that this app names."""
        defaults = Settings()
        settings = Settings(
            queues=self._weights(queues),
            concurrency=config.setting("concurrency", concurrency, defaults.concurrency),
            queue_concurrency=dict(queue_concurrency or {}),
            lease=defaults.lease if lease is None else micros(lease, "lease", low=MIN_LEASE_US),
            grace=micros(
                config.setting("grace", None if grace is None else f"{micros(grace)}us", f"{defaults.grace}us")
            ),
            name=config.setting("worker_name", name, ""),
            release=self.release,
            origin=origin(self, self.registry.modules, self.found_at),
        )
        return AppWorker(settings, self.workers.make)

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

    @property
    def sync(self) -> "SyncApp":
        """The same app for code without an event loop."""
        from packhorse.sync import SyncApp

        return SyncApp(self)

    def __repr__(self) -> str:
        return f"<app at {shown(self.url)}>"
