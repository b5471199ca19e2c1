"""Where calls become jobs and handles find theirs: what the surface knows of an app and its store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Protocol, TypeVar

from packhorse.jobs import envelope, options
from packhorse.jobs.call import Call
from packhorse.jobs.chunks import Chunk, Position, chunks
from packhorse.jobs.ends import Ends
from packhorse.jobs.options import NOTHING, PRIORITY, Options, over
from packhorse.jobs.trips import Trips
from packhorse.jobs.view import Status
from packhorse.model import caps, codec
from packhorse.model.clock import SYSTEM
from packhorse.model.codec import About, Codec
from packhorse.model.ids import JobId, chosen_id, id_text, new_id
from packhorse.model.job import Job, NewJob, Receipt, Unique
from packhorse.stores.contract import Store

T = TypeVar("T")

KEY = caps.KEY - caps.NAME - 1  # longer ones are stored by their hash


class Home(Protocol):
    """The store of an app on the loop that is running, who takes jobs to it, and who waits there for their ends."""

    store: Store
    trips: Trips
    ends: Ends


class Desk:
    """Knows what an app says about its queues and jobs, and where its store is."""

    def __init__(self, namespace: str, home: Callable[[], Awaitable[Home]], *, codec: Codec, app: Options) -> None:
        self.namespace, self._home, self.app = namespace, home, app
        self.queues: dict[str, Options] = {}
        self.lane_limits: dict[str, int] = {}
        self._codec = codec

    def job(
        self,
        call: Call[Any],
        *,
        id: JobId | None = None,
        parent: JobId | None = None,
        children: int = 0,
        chain: JobId | None = None,
        flow: envelope.Shape | None = None,
    ) -> NewJob:
        """The job that a call means; in a flow, with its place there, and in the chain of work that begins with one."""
        target, wish = call.target, call.wish.over(call.target.wish)
        queue = wish.queue or "default"
        if wish.plain and parent is None and flow is None and not children:
            return self._plain(call, id or new_id(), queue, chain)
        job = (id or new_id()) if wish.id is None else chosen_id(self.namespace, wish.id)
        plain = wish.id is None and flow is None and wish.options is NOTHING
        mine = envelope.NONE if plain else envelope.Own(id=wish.id, options=wish.options, flow=flow)
        return NewJob(
            id=job,
            task=target.name,
            queue=queue,
            payload=self._closed(call.payload, job, target.name),
            headers=envelope.headers(
                None if chain is None else id_text(chain),
                wish.headers,
                tenant=wish.tenant,
                user=wish.user,
                correlation=wish.correlation,
                mine=mine,
            ),
            tenant=wish.tenant,
            priority=self._priority(wish.options, target.options, queue),
            delay=wish.delay,
            at=wish.at,
            lane=wish.key,
            lane_limit=self.lane_limits.get(queue, 1),
            parent=parent,
            children=children,
            unique=None if wish.unique is None else _unique(call, wish.unique),
        )

    def _plain(self, call: Call[Any], job: JobId, queue: str, chain: JobId | None) -> NewJob:
        """The job of a call of which nothing else is said, as of most."""
        target = call.target
        return NewJob(
            id=job,
            task=target.name,
            queue=queue,
            payload=self._closed(call.payload, job, target.name),
            headers=envelope.chained(None if chain is None else id_text(chain)),
            priority=self._priority(NOTHING, target.options, queue),
        )

    def _closed(self, payload: bytes, job: JobId, task: str) -> bytes:
        return payload if self._codec.passes(payload) else self._codec.close(payload, About(job, task))

    def _priority(self, call: Options, task: Options, queue: str) -> int:
        """The first word on it; what else is said about jobs is asked for when they run."""
        for level in (call, task, self.queues.get(queue, NOTHING), self.app):
            if level is not NOTHING and level.priority is not None:
                return level.priority
        return PRIORITY

    def say(self, queue: str, said: Options, per_key: int | None) -> None:
        """Remember what is said about the jobs of a queue."""
        self.queues[queue] = over(said, self.queues.get(queue, NOTHING))
        if per_key is not None:
            caps.within("per_key", per_key, 1, caps.LANE_LIMIT)
            self.lane_limits[queue] = per_key

    async def store(self) -> Store:
        """The store, open on this loop."""
        return (await self._home()).store

    async def send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none."""
        caps.items("jobs", jobs)
        return await (await self._home()).trips.send(jobs)

    async def get(self, jobs: Sequence[JobId]) -> list[Job | None]:
        """What is known of jobs."""
        return await (await self.store()).jobs.get(jobs)

    async def ended(self, job: JobId, timeout: int | None) -> Job | None:
        """Wait for the end of a job; None if there is no such job."""
        ends = (await self._home()).ends
        async with asyncio.timeout(None if timeout is None else timeout / caps.SECOND):
            return await ends.of(job)

    async def cancel(self, job: JobId) -> Status:
        """Call a job off."""
        [state] = await (await self.store()).jobs.cancel([job])
        return Status.UNKNOWN if state is None else Status(state.value)

    async def promote(self, job: JobId) -> bool:
        """Make a scheduled job ready now."""
        [promoted] = await (await self.store()).jobs.promote([job])
        return promoted

    async def replay(self, job: JobId) -> bool:
        """Make a dead or cancelled job ready again."""
        [replayed] = await (await self.store()).jobs.replay([job])
        return replayed

    def open(self, job: Job, kind: type[T]) -> T:
        """What a stored job was enqueued with."""
        return codec.decode(self._codec.open(job.payload, About(job.id, job.task)), kind)

    def chunks(self, job: JobId, after: Position) -> AsyncIterator[Chunk]:
        """The pieces that a job emits."""
        return chunks(self, job, after, SYSTEM)

    @staticmethod
    def plain_result(result: bytes | None) -> Any:
        """A result whose type nobody knows here."""
        return None if result is None else codec.decode(result)


def _unique(call: Call[Any], unique: options.Unique) -> Unique:
    given = call.payload if unique.key is None else unique.key.encode()
    key = unique.key if unique.key is not None and len(given) <= KEY else sha256(given).hexdigest()
    return unique.stored(f"{call.target.name}:{key}")
