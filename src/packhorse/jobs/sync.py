"""Tasks, handles, queues and flows for code without an event loop: the same names and types, blocking."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack

from packhorse.jobs.call import Call, Said
from packhorse.jobs.chunks import Chunk, Position
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.queue import Queue
from packhorse.jobs.sending import send_blocking
from packhorse.model.duration import Duration

if TYPE_CHECKING:
    from packhorse.jobs.flows import Flow
    from packhorse.jobs.task import Using

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class Face(Protocol[A_co]):
    """What stands before something async."""

    @property
    def _async(self) -> A_co:
        """What it stands before."""


def forward(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]], /) -> Callable[Concatenate[Face[A], P], T]:
    """The same method, blocking."""
    name = method.__name__  # looked up when called: what stands behind may have a method of its own

    @wraps(method)
    def call(self: Face[A], /, *args: P.args, **options: P.kwargs) -> T:
        coroutine: Coroutine[Any, Any, T] = getattr(self._async, name)(*args, **options)
        return PORTAL.run(coroutine)

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
    status = forward(JobHandle[Any].status)
    progress = forward(JobHandle[Any].progress)
    cancel = forward(JobHandle[Any].cancel)
    promote = forward(JobHandle[Any].promote)
    replay = forward(JobHandle[Any].replay)

    # A body, for a type checker knows no R inside ``forward``.
    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for its end and answer what it returned, or raise what ``JobHandle.result`` raises."""
        return PORTAL.run(self._async.result(timeout))

    def stream(self, after: Position | None = None) -> Iterator[Chunk]:
        """The pieces that the job emits, as they come, until it has ended; ``after`` a piece read before, or all."""
        chunks = self._async.stream(after)

        async def following() -> Chunk | None:
            return await anext(chunks, None)

        while (chunk := PORTAL.run(following())) is not None:
            yield chunk

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncHandle) and self._async == other._async

    def __hash__(self) -> int:
        return hash(self._async)

    def __repr__(self) -> str:
        return repr(self._async)


def _sent(call: Call[R]) -> SyncHandle[R]:
    return SyncHandle(call.handle(send_blocking(call.target.desk, [call.job_within()], call.wish.within)))


class SyncTask(Generic[P, R]):
    """A task, for code without an event loop; ``task.using(…).sync`` has more said about its calls."""

    def __init__(self, task: "Using[P, R]") -> None:
        self._async = task

    def enqueue(self, *args: P.args, **options: P.kwargs) -> SyncHandle[R]:
        """Store a job that calls the function with these arguments, and answer at once."""
        return _sent(self._async.call(*args, **options))


class SyncFlow(Generic[R_co]):
    """A flow, for code without an event loop."""

    def __init__(self, flow: "Flow[R_co]") -> None:
        self._async = flow

    def enqueue(self, *, within: object | None = None) -> SyncHandle[R_co]:
        """Store all of it, and answer at once; ``within`` a connection of yours, as part of its transaction."""
        flow = self._async
        return SyncHandle(flow.handle(send_blocking(flow._desk, flow.jobs(), within)))


class SyncQueue:
    """One queue of an app, for code without an event loop."""

    def __init__(self, queue: Queue) -> None:
        self._async, self.name = queue, queue.name

    def enqueue(self, task: str, data: Mapping[str, Any] | None = None, **said: Unpack[Said]) -> SyncHandle[Any]:
        """Store a job for a task by its name: another service's, or one whose name is only known now."""
        return _sent(self._async.call(task, data, **said))

    pause = forward(Queue.pause)
    resume = forward(Queue.resume)
    counts = forward(Queue.counts)
    drain = forward(Queue.drain)
    purge = forward(Queue.purge)

    def __repr__(self) -> str:
        return repr(self._async)
