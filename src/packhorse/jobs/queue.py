"""A named line of jobs: what is said about all of them, and what can be done to the line as a whole."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from packhorse.engine.registry import Batching
from packhorse.jobs import sending
from packhorse.jobs.batch import Handler
from packhorse.jobs.call import NO_WISH, Call, Said, Wish, wish
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.options import NOTHING, Options
from packhorse.jobs.view import Job
from packhorse.model import caps, codec
from packhorse.model.duration import Duration, micros
from packhorse.model.job import State
from packhorse.model.page import Filter

if TYPE_CHECKING:
    from packhorse.jobs.desk import Desk
    from packhorse.jobs.registry import AppRegistry

SWEEPS = 10  # a producer that is faster than a sweep must not keep it going

F = TypeVar("F", bound=Callable[[Job], Any])
B = TypeVar("B", bound=Handler)


class Named:
    """A task known by its name alone: it may be another service's."""

    def __init__(self, desk: "Desk", name: str, queue: str) -> None:
        caps.name("task", name)
        self.desk, self.name, self.wish, self.options = desk, name, Wish(queue=queue), NOTHING

    def unpack_result(self, result: bytes | None) -> Any:
        """A result whose type nobody knows here."""
        return self.desk.plain_result(result)


class Queue:
    """One queue of an app."""

    def __init__(self, desk: "Desk", registry: "AppRegistry", name: str) -> None:
        caps.name("queue", name)
        self.name = name
        self._desk, self._registry = desk, registry

    @property
    def options(self) -> Options:
        """What is said about its jobs."""
        return self._desk.queues.get(self.name, NOTHING)

    def call(self, task: str, data: Mapping[str, Any] | None = None, **said: Unpack[Said]) -> Call[Any]:
        """A call of a task by its name, with plain data; options as in ``task.using``."""
        payload = codec.encode(dict(data or {}))
        return Call(Named(self._desk, task, self.name), payload, wish(**said) if said else NO_WISH)

    async def enqueue(self, task: str, data: Mapping[str, Any] | None = None, **said: Unpack[Said]) -> JobHandle[Any]:
        """Store a job for a task by its name: another service's, or one whose name is only known now."""
        return await sending.enqueue(self.call(task, data, **said))

    def handler(self, function: F) -> F:
        """Give this function the jobs of the queue that no task is registered for."""
        self._registry.add_handler(self.name, function, NOTHING)
        return function

    def batch(self, *, size: int = 10, wait: Duration = 5) -> Callable[[B], B]:
        """Give a function the jobs of the queue several at a time: so many, or what is there after so long."""

        def register(function: B) -> B:
            self._registry.add_batch(self.name, function, Batching(size, micros(wait, "wait")))
            return function

        return register

    async def pause(self) -> None:
        """Give no more jobs to workers; what runs goes on, and jobs can be enqueued."""
        await (await self._desk.store()).queues.pause([self.name])

    async def resume(self) -> None:
        """Give jobs to workers again."""
        await (await self._desk.store()).queues.resume([self.name])

    async def counts(self) -> dict[str, int]:
        """How many jobs stand in each state."""
        counts = (await (await self._desk.store()).jobs.count()).get(self.name, {})
        return {state.value: counts.get(state, 0) for state in State}

    async def drain(self) -> int:
        """Cancel all that is not running and has not ended, and say how many that were."""
        return await self._sweep(self._cancel, State.WAITING, State.SCHEDULED, State.READY)

    async def purge(self) -> int:
        """Remove all jobs, ended and running ones too, and say how many that were."""
        return await self._sweep(self._drop, State.WAITING, *(state for state in State if state is not State.WAITING))

    async def _sweep(self, act: Callable[[list[bytes]], Awaitable[int]], *states: State) -> int:
        """Go through the states until nothing is found, waiting jobs first: the end of another makes them ready."""
        total = 0
        for _ in range(SWEEPS):
            found = 0
            for state in states:
                found += await self._sweep_state(act, state)
            total += found
            if not found:
                break
        return total

    async def _sweep_state(self, act: Callable[[list[bytes]], Awaitable[int]], state: State) -> int:
        jobs, total = (await self._desk.store()).jobs, 0
        cursor: str | None = None
        while True:
            page = await jobs.find(Filter(queue=self.name, state=state), limit=caps.ITEMS, cursor=cursor)
            total += await act([job.id for job in page.items]) if page.items else 0
            cursor = page.cursor
            if cursor is None:
                return total

    async def _cancel(self, jobs: list[bytes]) -> int:
        states = await (await self._desk.store()).jobs.cancel(jobs)
        return sum(state is State.CANCELLED for state in states)

    async def _drop(self, jobs: list[bytes]) -> int:
        return sum(await (await self._desk.store()).jobs.drop(jobs))

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
