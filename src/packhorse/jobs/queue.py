"""A queue by its name: options of its jobs, and actions on all of them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from packhorse.engine.registry import Batching
from packhorse.jobs.batch import Handler
from packhorse.jobs.bulk_action import CANCEL_PENDING, PURGE, BulkAction, pages
from packhorse.jobs.call import Call
from packhorse.jobs.handle import JobHandle, unpack_plain
from packhorse.jobs.job import Job
from packhorse.jobs.options import NO_CALL_OPTIONS, NO_OPTIONS, CallKeywords, CallOptions, JobOptions, call_options
from packhorse.jobs.search import Search
from packhorse.model import codec, limits
from packhorse.model.duration import Duration, micros
from packhorse.model.job import State

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.jobs.registry import AppRegistry

SWEEPS = 10  # a producer that is faster than a sweep must not keep it going

F = TypeVar("F", bound=Callable[[Job], Any])
B = TypeVar("B", bound=Handler)


class RemoteTask:
    """A task known by its name alone: it may be another service's."""

    options: JobOptions = NO_OPTIONS

    def __init__(self, client: "Client", name: str, queue: str) -> None:
        limits.name("task", name)
        self.client, self.name, self.call_options = client, name, CallOptions(queue=queue)

    def unpack_result(self, result: bytes | None) -> Any:
        """Decode a result whose type is not known here."""
        return unpack_plain(result)


class Queue:
    """One queue of an app."""

    def __init__(self, client: "Client", registry: "AppRegistry", name: str) -> None:
        limits.name("queue", name)
        self.name = name
        self._client, self._registry = client, registry

    @property
    def options(self) -> JobOptions:
        """Options of its jobs."""
        return self._client.builder.levels.of_queue(self.name)

    def call(self, task: str, data: Mapping[str, Any] | None = None, **options: Unpack[CallKeywords]) -> Call[Any]:
        """A call of a task by its name, with plain data; options as in ``task.using``."""
        payload = codec.encode(dict(data or {}))
        remote = RemoteTask(self._client, task, self.name)
        return Call(remote, payload, call_options(**options) if options else NO_CALL_OPTIONS)

    async def enqueue(
        self, task: str, data: Mapping[str, Any] | None = None, **options: Unpack[CallKeywords]
    ) -> JobHandle[Any]:
        """Store a job for a task by its name: another service's, or one whose name is only known now."""
        return await self._client.enqueue(self.call(task, data, **options))

    def handler(self, function: F) -> F:
        """Give this function the jobs of the queue that no task is registered for."""
        self._registry.add_handler(self.name, function)
        return function

    def batch(self, *, size: int = 10, wait: Duration = 5) -> Callable[[B], B]:
        """Give a function the jobs of the queue in batches: ``size`` jobs, or those that are ready after ``wait``."""

        def register(function: B) -> B:
            self._registry.add_batch(self.name, function, Batching(size, micros(wait, "wait")))
            return function

        return register

    async def pause(self) -> None:
        """Give workers no more jobs; running jobs go on, and jobs can be enqueued."""
        async with self._client.audit.recorded("pause", target=self.name):
            await (await self._client.store()).queues.pause([self.name])

    async def resume(self) -> None:
        """Give jobs to workers again."""
        async with self._client.audit.recorded("resume", target=self.name):
            await (await self._client.store()).queues.resume([self.name])

    async def counts(self) -> dict[str, int]:
        """Count the jobs of the queue in each state."""
        counts = (await (await self._client.store()).jobs.count()).get(self.name, {})
        return {state.value: counts.get(state, 0) for state in State}

    async def cancel_pending(self) -> int:
        """Cancel all jobs that have not started, and return how many were cancelled."""
        return await self._sweep(CANCEL_PENDING)

    async def purge(self) -> int:
        """Remove all jobs, ended and running ones too, and return how many were removed."""
        return await self._sweep(PURGE)

    async def _sweep(self, action: BulkAction) -> int:
        """Go through the states until nothing is found: the end of a job makes others ready."""
        async with self._client.audit.announced(action.name, filter={"queue": self.name}) as operation:
            operation.count = 0
            for _ in range(SWEEPS):
                found = 0
                async for jobs, _ in pages(self._client, action.searches(Search(queue=self.name))):
                    ids = [job.stored.id for job in jobs]
                    found += sum(await action.write(await self._client.store(), ids)) if ids else 0
                operation.count += found
                if not found:
                    break
            return operation.count

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
