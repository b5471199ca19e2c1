"""Tasks, handles, queues and plans for code without an event loop: the same names and types, blocking."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack

from packhorse.jobs.call import Call
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import CallKeywords
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.queue import Queue
from packhorse.model.duration import Duration

if TYPE_CHECKING:
    from packhorse.jobs.plans import Plan
    from packhorse.jobs.task import BoundTask

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class Face(Protocol[A_co]):
    """An object that makes an async one blocking."""

    @property
    def _async(self) -> A_co:
        """The async object."""


def forward(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]], /) -> Callable[Concatenate[Face[A], P], T]:
    """The same method, blocking."""
    name = method.__name__  # looked up at the call: the async object may be of a subclass

    @wraps(method)
    def call(self: Face[A], /, *args: P.args, **options: P.kwargs) -> T:
        coroutine: Coroutine[Any, Any, T] = getattr(self._async, name)(*args, **options)
        return PORTAL.run(coroutine)

    return call


def each(source: AsyncIterator[T]) -> Iterator[T]:
    """Iterate over something async, blocking."""

    async def following() -> tuple[T] | None:
        try:
            return (await anext(source),)
        except StopAsyncIteration:
            return None

    while (item := PORTAL.run(following())) is not None:
        yield item[0]


def forward_each(
    method: Callable[Concatenate[A, P], AsyncIterator[T]], /
) -> Callable[Concatenate[Face[A], P], Iterator[T]]:
    """The same method, blocking at each item."""
    name = method.__name__

    @wraps(method)
    def call(self: Face[A], /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        items: AsyncIterator[T] = getattr(self._async, name)(*args, **options)
        return each(items)

    return call


class SyncHandle(Generic[R_co]):
    """A job that was enqueued, for code without an event loop."""

    def __init__(self, handle: JobHandle[R_co]) -> None:
        self._async = handle

    @property
    def id(self) -> str:
        """The id of the job."""
        return self._async.id

    @property
    def created(self) -> bool:
        """False if it was there already: the same chosen id, or a unique key that is taken."""
        return self._async.created

    info = forward(JobHandle[Any].info)
    state = forward(JobHandle[Any].state)
    progress = forward(JobHandle[Any].progress)
    cancel = forward(JobHandle[Any].cancel)
    promote = forward(JobHandle[Any].promote)
    replay = forward(JobHandle[Any].replay)
    children = forward_each(JobHandle[Any].children)
    stream = forward_each(JobHandle[Any].stream)

    # A body, for a type checker knows no R inside ``forward``.
    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for its end and answer what it returned, or raise what ``JobHandle.result`` raises."""
        return PORTAL.run(self._async.result(timeout))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncHandle) and self._async == other._async

    def __hash__(self) -> int:
        return hash(self._async)

    def __repr__(self) -> str:
        return repr(self._async)


def _sent(call: Call[R]) -> SyncHandle[R]:
    return SyncHandle(call.target.client.enqueue_blocking(call))


class SyncTask(Generic[P, R]):
    """A task, for code without an event loop; ``task.using(…).sync`` has options for its calls."""

    def __init__(self, task: "BoundTask[P, R]") -> None:
        self._async = task

    def enqueue(self, *args: P.args, **options: P.kwargs) -> SyncHandle[R]:
        """Store a job that calls the function with these arguments, and answer at once."""
        return _sent(self._async.call(*args, **options))

    def enqueue_and_wait(self, *args: P.args, **options: P.kwargs) -> R:
        """Store a job, wait for its end and return its result, or raise what ``result`` raises."""
        return self.enqueue(*args, **options).result()

    def job(self, id: str) -> SyncHandle[R]:
        """Give the handle of a job of this task by its id or its chosen id."""
        return SyncHandle(self._async.job(id))


class SyncPlan(Generic[R_co]):
    """A plan, for code without an event loop."""

    def __init__(self, plan: "Plan[R_co]") -> None:
        self._async = plan

    def enqueue(self, *, within: object | None = None) -> SyncHandle[R_co]:
        """Store all of it, and answer at once; ``within`` a connection of yours, as part of its transaction."""
        return SyncHandle(self._async.enqueue_blocking(within))


class SyncQueue:
    """One queue of an app, for code without an event loop."""

    def __init__(self, queue: Queue) -> None:
        self._async, self.name = queue, queue.name

    def enqueue(
        self, task: str, data: Mapping[str, Any] | None = None, **options: Unpack[CallKeywords]
    ) -> SyncHandle[Any]:
        """Store a job for a task by its name: another service's, or one whose name is only known now."""
        return _sent(self._async.call(task, data, **options))

    pause = forward(Queue.pause)
    resume = forward(Queue.resume)
    counts = forward(Queue.counts)
    cancel_pending = forward(Queue.cancel_pending)
    purge = forward(Queue.purge)

    def __repr__(self) -> str:
        return repr(self._async)
