"""Jobs on Redis: each verb is one script."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from packhorse.errors import OtherDatabase, OutcomeUnknown, StoreUnavailable
from packhorse.model import event
from packhorse.model.effect import Effect
from packhorse.model.ids import JobId
from packhorse.model.job import (
    KEEP_DEAD,
    KEEP_DONE,
    LEASE_US,
    MAX_LOST,
    REMEMBER_US,
    NewJob,
    Pruned,
    PrunedDead,
    Receipt,
    Retention,
    State,
    StoredJob,
)
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Lost, Renewed, Settlement, Verdict
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts
from packhorse.model.reason import WaitReason
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import job_of, job_row, keep_text, plain_job_rows
from packhorse.stores.redis.pages import Pages
from packhorse.stores.redis.settling import (
    claim_arguments,
    exchange_of,
    move_arguments,
    settlement_arguments,
    verdicts_of,
)

_RENEWED = {ord("K"): Renewed.KEPT, ord("C"): Renewed.CANCELLING, ord("L"): Renewed.LOST}
_NOTED = {ord("W"): Verdict.WRITTEN, ord("L"): Verdict.LOST}


class RedisJobs:
    """The jobs facet of the store."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._pages = Pages(keyspace, self.get)

    def within(self) -> NoReturn:
        """Refuse: a transaction of a database cannot include what is stored here."""
        raise OtherDatabase("A store on Redis cannot be part of a transaction of a database")

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none, and return for each the new or existing job."""
        edge.jobs(jobs)
        if not jobs:
            return []
        taken = await self._taken(jobs)
        receipts = [Receipt(job.id, True) for job in jobs]
        for number, holder in zip(taken[::2], taken[1::2], strict=True):
            receipts[number - 1] = Receipt(holder, False)
        return receipts

    async def _taken(self, jobs: Sequence[NewJob]) -> list[Any]:
        """Store jobs; plain jobs of one queue and priority by a fast path, if it does not decline."""
        if plain := plain_job_rows(jobs):
            first = jobs[0]
            run = self._keyspace.run("enqueue_plain", queue=first.queue, priority=first.priority, new_jobs=plain)
            if (taken := await run) is not None:
                return list(taken)
        rows: list[Any] = []
        for job in jobs:
            rows += job_row(job)
        return list(await self._keyspace.run("enqueue", new_jobs=rows))

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step."""
        edge.settlements(settlements)
        given = settlement_arguments(settlements)
        if ask is not None:
            self._keyspace.claimed_queues[ask.worker] = tuple([share.queue for share in ask.shares])
        return exchange_of(await self._keyspace.run("exchange", **given, **claim_arguments(ask)), ask)

    async def fire(self, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
        """Write effects that belong to no lease, each move whole or not at all."""
        edge.moves(moves)
        return verdicts_of(await self._keyspace.run("fire", **move_arguments(moves))) if moves else []

    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        """Extend leases by this duration from now."""
        edge.renewals(leases, duration)
        if not leases:
            return []
        held: list[bytes] = []
        for lease in leases:
            held += (lease.id, lease.token)
        answers = await self._keyspace.run("renew", duration=duration, held_leases=held)
        return [_RENEWED[letter] for letter in answers]

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Retention = KEEP_DEAD) -> list[Lost]:
        """Take back expired leases, up to the limit, and return which."""
        edge.limit(limit)
        edge.losses(max_lost)
        rows = await self._keyspace.run(
            "reap", limit=limit, max_lost=max_lost, keep=keep_text(keep), keep_cancelled=keep_text(KEEP_DONE)
        )
        return [
            Lost(id, worker, attempt, lost, State(state.decode()))
            for id, worker, attempt, lost, state in zip(*(rows[n::5] for n in range(5)), strict=True)  # noqa: A001
        ]

    async def release(self, reason: WaitReason, *, tasks: Sequence[str] | None = None, limit: int = 500) -> int:
        """Make jobs ready that wait for this reason, the longest waiting first, up to the limit."""
        edge.limit(limit)
        edge.release(reason, tasks)
        if tasks is not None and not tasks:
            return 0
        return int(await self._keyspace.run("release", reason=reason.value, limit=limit, tasks=list(tasks or ())))

    async def cancel(self, ids: Sequence[JobId], *, keep: Retention = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and return the state of each."""
        edge.ids(ids)
        if not ids:
            return []
        states = await self._keyspace.run("cancel", keep=keep_text(keep), targets=list(ids))
        return [State(state.decode()) if state else None for state in states]

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and return which were."""
        return await self._each("replay", ids)

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and return which were."""
        return await self._each("promote", ids)

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Store the latest progress of running jobs."""
        edge.notes(notes)
        if not notes:
            return []
        rows: list[bytes] = []
        for lease, progress in notes:
            rows += (lease.id, lease.token, progress)
        return [_NOTED[letter] for letter in await self._keyspace.run("note", notes=rows)]

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, StoredJob | None]:
        """Watch for the end of jobs for a time; return those that ended already, and None for unknown ones."""
        edge.ids(ids)
        edge.ttl(ttl)
        if not ids:
            return {}
        over = await self._keyspace.run("watch", ttl=ttl, targets=list(ids))
        found = zip(over, await self.get(over), strict=True)
        return {id: job for id, job in found if job is None or job.state.ended}  # noqa: A001

    async def prune(self, limit: int) -> Pruned:
        """Remove ended jobs beyond their keep, oldest first, up to the limit."""
        edge.limit(limit)
        jobs, others, more, dead = await self._keyspace.run(
            "prune", limit=limit, remember_chosen=REMEMBER_US, remember_other=10 * LEASE_US,
            log_max_events=event.LIFECYCLE_MAX_EVENTS, log_max_bytes=event.LIFECYCLE_MAX_BYTES,
        )  # fmt: skip
        rows = zip(dead[::3], dead[1::3], dead[2::3], strict=True)
        by_queue = {queue.decode(errors="replace"): PrunedDead(count, int(newest)) for queue, count, newest in rows}
        return Pruned(jobs, others, bool(more), by_queue)

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and return which existed."""
        answers = await self._each("drop", ids)
        while len(answers) < len(ids):  # a script blocks the server, so it stops after parents of many children
            try:
                answers += await self._each("drop", ids[len(answers) :])
            except StoreUnavailable as error:
                raise OutcomeUnknown(f"{error}; the first of the jobs were dropped: drop them all again") from error
        return answers

    async def get(self, ids: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
        """Return all that is known of each job, or None."""
        edge.ids(ids)
        edge.bodies(bodies)
        if not ids:
            return []
        found = await self._keyspace.run("get", bodies=int(bodies), targets=list(ids))
        return [job_of(id, packed) if packed else None for id, packed in zip(ids, found, strict=True)]  # noqa: A001

    async def find(
        self, filter: Filter, *, limit: int = 100, cursor: str | None = None, bodies: bool = True
    ) -> Page[StoredJob]:
        """Read at most a thousand jobs and return those that fit, with a cursor if there may be more."""
        edge.limit(limit)
        edge.bodies(bodies)
        return await self._pages.find(filter, limit, cursor, bodies=bodies)

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state."""
        return counts_of(await self._keyspace.read("HGETALL", "counts"))

    async def _each(self, verb: str, ids: Sequence[JobId]) -> list[bool]:
        edge.ids(ids)
        if not ids:
            return []
        return [bool(answer) for answer in await self._keyspace.run(verb, targets=list(ids))]


def counts_of(fields: Sequence[bytes]) -> dict[str, Counts]:
    """Return the counts by queue and state."""
    counts: dict[str, dict[State, int]] = defaultdict(dict)
    for field, number in zip(fields[::2], fields[1::2], strict=True):
        if field:
            queue, _, state = field.decode(errors="replace").rpartition("\x1f")
            counts[queue][State(state)] = int(number)
    return dict(counts)
