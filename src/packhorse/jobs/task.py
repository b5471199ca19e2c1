"""A task: a function that can also be run as a job."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast

from packhorse.engine.failures import Fingerprint
from packhorse.engine.policy import Kinds
from packhorse.engine.registry import Entry, Run
from packhorse.engine.tx import FROM_STORE, Opens
from packhorse.errors import ConfigError
from packhorse.jobs.arguments import Arguments
from packhorse.jobs.call import Call
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.handlers import call_of_task
from packhorse.jobs.options import (
    NO_CALL_OPTIONS,
    CallOptions,
    JobOptions,
    Keep,
    Unique,
    call_options,
    with_named_options,
)
from packhorse.jobs.user_transactions import SessionFactory
from packhorse.model import limits
from packhorse.model.backoff import Backoff
from packhorse.model.duration import Duration

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.sync import SyncTask

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

RunName = Literal["async", "thread", "process"]
LaneOnDead = Literal["continue", "halt"]


class BoundTask(Generic[P, R_co]):
    """A task with options for its calls."""

    def __init__(self, task: "Task[P, R_co]", call_options: CallOptions) -> None:
        self._task, self._call_options = task, call_options

    def call(self, *args: P.args, **arguments: P.kwargs) -> Call[R_co]:
        """Make a call to be enqueued later, alone or in a plan; its arguments are checked now."""
        return Call(self._task, self._task.arguments.pack(args, arguments), self._call_options)

    async def enqueue(self, *args: P.args, **arguments: P.kwargs) -> JobHandle[R_co]:
        """Store a job that calls the function with these arguments, and answer at once."""
        return await self._task.client.enqueue(self.call(*args, **arguments))

    async def enqueue_and_wait(self, *args: P.args, **arguments: P.kwargs) -> R_co:
        """Store a job, wait for its end and return its result, or raise what ``JobHandle.result`` raises.

        If the wait is cancelled, by ``asyncio.timeout`` for example, the job goes on.
        """
        return await (await self.enqueue(*args, **arguments)).result()

    def job(self, id: str) -> JobHandle[R_co]:
        """Give the handle of a job of this task by its id or its chosen id, as ``app.job`` does, with a typed result."""
        client = self._task.client
        return JobHandle(client, client.job_id(id), unpack=self._task.unpack_result)

    def partial(self) -> Call[R_co]:
        """Make a call whose first argument comes when it runs."""
        return Call(self._task, b"{}", self._call_options)

    @property
    def input_name(self) -> str:
        """The name of the parameter that takes the result before it."""
        return self._task.arguments.first

    @property
    def sync(self) -> "SyncTask[P, R_co]":
        """The same for code without an event loop."""
        from packhorse.jobs.sync import SyncTask

        return SyncTask(self)

    @with_named_options
    def using(
        self,
        *,
        queue: str | None = None,
        id: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        key: str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        correlation_id: str | None = None,
        unique: Unique | Duration | None = None,
        within: object | None = None,
        headers: Mapping[str, Any] | None = None,
        attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
        keep_done: Keep | int | None = None,
        keep_dead: Keep | int | None = None,
    ) -> "BoundTask[P, R_co]":
        """Give the same task with more options for its calls; None leaves an option as it is."""
        options = call_options(
            queue=queue,
            id=id,
            delay=delay,
            at=at,
            key=key,
            tenant=tenant,
            user=user,
            correlation_id=correlation_id,
            unique=unique,
            within=within,
            headers=headers,
            attempts=attempts,
            backoff=backoff,
            timeout=timeout,
            priority=priority,
            keep_done=keep_done,
            keep_dead=keep_dead,
        )
        return BoundTask(self._task, options.over(self._call_options))


class Task(BoundTask[P, R_co]):
    """A registered function. Its name is what is stored and routed by."""

    def __init__(
        self,
        client: "Client",
        function: Callable[P, Any],
        *,
        name: str,
        call_options: CallOptions,
        options: JobOptions,
        aliases: tuple[str, ...] = (),
        retry_on: Kinds = (),
        dead_on: Kinds = (),
        run: Run | RunName | None = None,
        lane_on_dead: LaneOnDead = "continue",
        transaction: bool | Callable[[], Any] = False,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        super().__init__(self, NO_CALL_OPTIONS)
        for each in (name, *aliases):
            limits.name("task", each)
        self.name, self.aliases = name, aliases
        self.call_options, self.options = call_options, options
        self.retry_on, self.dead_on = retry_on, dead_on
        if lane_on_dead not in ("continue", "halt"):
            raise ConfigError(f'The task {name!r} has lane_on_dead={lane_on_dead!r}: give "continue" or "halt"')
        self.halts = lane_on_dead == "halt"
        self.transaction = _transaction(name, transaction)
        self.fingerprint = _fingerprint(name, fingerprint)
        self.function = function
        self.arguments = Arguments(function, name)
        self.client = client
        self.run = _run(name, function, options, run)
        functools.update_wrapper(cast(Any, self), function)

    def unpack_result(self, result: bytes | None) -> Any:
        """The value that a stored result means."""
        return self.arguments.unpack_result(result)

    def entry(self, options: JobOptions) -> Entry:
        """Give the task as a worker sees it, with its merged options."""
        return Entry(
            name=self.name,
            call=call_of_task(self.function),
            run=self.run,
            policy=options.policy(retry_on=self.retry_on, dead_on=self.dead_on),
            aliases=self.aliases,
            decode=self.arguments.unpack,
            encode=self.arguments.pack_result,
            halts=self.halts,
            transaction=self.transaction,
            fingerprint=self.fingerprint,
        )

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class AsyncTask(Task[P, R_co]):
    """A task whose function is a coroutine function; called, it is just that."""

    def __call__(self, *args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Run the function here and now, as if it were no task."""
        return cast(Coroutine[Any, Any, R_co], self.function(*args, **options))


class PlainTask(Task[P, R_co]):
    """A task whose function is a plain one; called, it is just that."""

    def __call__(self, *args: P.args, **options: P.kwargs) -> R_co:
        """Run the function here and now, as if it were no task."""
        return cast(R_co, self.function(*args, **options))


def make_task(client: "Client", function: Callable[P, Awaitable[R] | R], **options: Any) -> Task[P, R]:
    """Make the task of a function."""
    check_callable(function)
    if _is_method(function):
        raise ConfigError(
            f"{function.__qualname__} is a method: a task is a function, or a @staticmethod, without self"
        )
    kind = AsyncTask if inspect.iscoroutinefunction(function) else PlainTask
    return kind(client, function, **options)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class and takes the instance or the class first."""
    scope = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    return "." in scope and next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def name_of(function: Callable[..., Any]) -> str:
    """Give the default name of a task: where its function is found."""
    check_callable(function)
    try:
        return f"{function.__module__}.{function.__qualname__}"
    except AttributeError:  # of functools.partial, or an object with a method __call__
        raise ConfigError(
            f"{function!r} is no plain function and has no name: give the task one, with name=…"
        ) from None


def check_callable(function: object) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise ConfigError(f"{function!r} is no function: put the decorator on a function")


def _transaction(name: str, given: object) -> Opens | None:
    if isinstance(given, bool):
        return FROM_STORE if given else None
    if not callable(given):
        raise ConfigError(f"The task {name!r} has transaction={given!r}: give True, or a function that opens one")
    return SessionFactory(given)


def _fingerprint(name: str, given: object) -> Fingerprint | None:
    if given is None or callable(given) or (isinstance(given, str) and given):
        return cast("Fingerprint | None", given)
    raise ConfigError(f"The task {name!r} has fingerprint={given!r}: give text, or a function of the exception")


def _run(name: str, function: Callable[..., Any], options: JobOptions, run: Run | RunName | None) -> Run:
    coroutine = inspect.iscoroutinefunction(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(f"The task {name!r} is a generator: return a value, and use current().emit for pieces")
    if run is None:
        if coroutine:
            return Run.ASYNC
        return Run.THREAD if options.timeout is None else Run.PROCESS
    try:
        chosen = Run(run)
    except ValueError:
        raise ConfigError(f"The task {name!r} cannot run as {run!r}: give async, thread or process") from None
    if chosen is Run.ASYNC and not coroutine:
        raise ConfigError(
            f"The task {name!r} cannot run as async: it is a plain function; write async def, or give thread"
        )
    if chosen is Run.THREAD and coroutine:
        raise ConfigError(f"The task {name!r} cannot run as thread: an async function needs the event loop")
    return chosen
