"""A task: a function that can also be run as a job."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, Unpack, cast

from packhorse.engine.policy import Kinds
from packhorse.engine.registry import Entry, Run
from packhorse.engine.tx import FROM_STORE, Opens
from packhorse.errors import ConfigError
from packhorse.jobs import sending
from packhorse.jobs.arguments import Arguments
from packhorse.jobs.call import NO_WISH, Call, Said, Wish, wish
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import Options
from packhorse.jobs.sessions import Factory
from packhorse.model import caps

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk
    from packhorse.jobs.sync import SyncTask

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

RunName = Literal["async", "thread", "process"]
OnExhausted = Literal["skip", "halt"]


class Using(Generic[P, R_co]):
    """A task with something said about its calls."""

    def __init__(self, task: "Task[P, R_co]", wish: Wish) -> None:
        self._task, self._wish = task, wish

    def call(self, *args: P.args, **options: P.kwargs) -> Call[R_co]:
        """A call to be enqueued later, alone or in a flow; its arguments are checked now."""
        return Call(self._task, self._task.arguments.pack(args, options), self._wish)

    async def enqueue(self, *args: P.args, **options: P.kwargs) -> JobHandle[R_co]:
        """Store a job that calls the function with these arguments, and answer at once."""
        return await sending.enqueue(self.call(*args, **options))

    def later(self) -> Call[R_co]:
        """A call whose first argument comes when it runs."""
        return Call(self._task, b"{}", self._wish)

    @property
    def first_parameter(self) -> str:
        """The name under which it takes the result before it."""
        return self._task.arguments.first

    @property
    def sync(self) -> "SyncTask[P, R_co]":
        """The same for code without an event loop."""
        from packhorse.jobs.sync import SyncTask

        return SyncTask(self)

    @property
    def desk(self) -> "Desk":
        """Where its calls become jobs."""
        return self._task.desk

    def using(self, **said: Unpack[Said]) -> "Using[P, R_co]":
        """The same with more said about its calls."""
        return Using(self._task, wish(**said).over(self._wish))


class Task(Using[P, R_co]):
    """A registered function. Its name is what is stored and routed by."""

    def __init__(
        self,
        desk: "Desk",
        function: Callable[P, Any],
        *,
        name: str,
        wish: Wish,
        options: Options,
        aliases: tuple[str, ...] = (),
        retry_on: Kinds = (),
        dead_on: Kinds = (),
        run: Run | RunName | None = None,
        on_exhausted: OnExhausted = "skip",
        transaction: bool | Callable[[], Any] = False,
    ) -> None:
        super().__init__(self, NO_WISH)
        for each in (name, *aliases):
            caps.name("task", each)
        self.name, self.aliases = name, aliases
        self.wish, self.options = wish, options
        self.retry_on, self.dead_on = retry_on, dead_on
        if on_exhausted not in ("skip", "halt"):
            raise ConfigError(f'The task {name!r} says on_exhausted={on_exhausted!r}: say "skip" or "halt"')
        self.halts = on_exhausted == "halt"
        self.transaction = _transaction(name, transaction)
        self.function = function
        self.arguments = Arguments(function, name)
        self._desk = desk
        self.run = _run(name, function, options, run)
        functools.update_wrapper(cast(Any, self), function)

    @property
    def desk(self) -> "Desk":
        """Where its calls become jobs."""
        return self._desk

    def unpack_result(self, result: bytes | None) -> Any:
        """The value that a stored result means."""
        return self.arguments.unpack_result(result)

    def entry(self, options: Options) -> Entry:
        """The task as a worker sees it, with what is said about it all in all."""
        return Entry(
            name=self.name,
            call=self.function,
            run=self.run,
            policy=options.policy(retry_on=self.retry_on, dead_on=self.dead_on),
            aliases=self.aliases,
            decode=self.arguments.unpack,
            encode=self.arguments.pack_result,
            halts=self.halts,
            transaction=self.transaction,
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


def make(desk: "Desk", function: Callable[P, Awaitable[R] | R], **said: Any) -> Task[P, R]:
    """The task of a function."""
    if not callable(function):
        raise ConfigError(f"{function!r} is no function: put the decorator on a function")
    if _is_method(function):
        raise ConfigError(
            f"{function.__qualname__} is a method: a task is a function, or a @staticmethod, without self"
        )
    kind = AsyncTask if inspect.iscoroutinefunction(function) else PlainTask
    return kind(desk, function, **said)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it stands in a class and takes the instance or the class first."""
    scope = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    return "." in scope and next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def named(function: Callable[..., Any]) -> str:
    """The name of a task that was given none: where its function is found."""
    return f"{function.__module__}.{function.__qualname__}"


def _transaction(name: str, given: object) -> Opens | None:
    if isinstance(given, bool):
        return FROM_STORE if given else None
    if not callable(given):
        raise ConfigError(f"The task {name!r} says transaction={given!r}: say True, or give a function that opens one")
    return Factory(given)


def _run(name: str, function: Callable[..., Any], options: Options, run: Run | RunName | None) -> Run:
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
        raise ConfigError(f"The task {name!r} cannot run as {run!r}: say async, thread or process") from None
    if chosen is Run.ASYNC and not coroutine:
        raise ConfigError(
            f"The task {name!r} cannot run as async: it is a plain function; write async def, or say thread"
        )
    if chosen is Run.THREAD and coroutine:
        raise ConfigError(f"The task {name!r} cannot run as thread: an async function needs the event loop")
    return chosen
