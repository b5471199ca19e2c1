"""The life of jobs, each verb one script."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from packhorse.errors import OtherDatabase
from packhorse.model.effect import Effect
from packhorse.model.ids import JobId
from packhorse.model.job import (
    KEEP_DEAD,
    KEEP_DONE,
    LEASE,
    MAX_LOST,
    REMEMBER,
    Job,
    Keep,
    NewJob,
    Pruned,
    Receipt,
    State,
)
from packhorse.model.lease import Ask, Exchange, Lease, Lost, Renewed, Settlement, Verdict
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts
from packhorse.model.reason import WaitReason
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import job_of, keep_text, plain_wishes, wish
from packhorse.stores.redis.pages import Pages
from packhorse.stores.redis.settling import (
    ask_arguments,
    exchange_of,
    move_arguments,
    settlement_arguments,
    verdicts_of,
)

_RENEWED = {ord("K"): Renewed.KEPT, ord("C"): Renewed.CANCELLING, ord("L"): Renewed.LOST}
_NOTED = {ord("W"): Verdict.WRITTEN, ord("L"): Verdict.LOST}


class Jobs:
    """The jobs facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._pages = Pages(keyspace, self.get)

    def within(self) -> NoReturn:
        """Refuse: no transaction of a database can hold what is stored here."""
        raise OtherDatabase("A store on Redis cannot be part of a transaction of a database")

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none, and say for each which job stands for it."""
        edge.jobs(jobs)
        if not jobs:
            return []
        taken = await self._taken(jobs)
        receipts = [Receipt(job.id, True) for job in jobs]
        for number, holder in zip(taken[::2], taken[1::2], strict=True):
            receipts[number - 1] = Receipt(holder, False)
        return receipts

    async def _taken(self, jobs: Sequence[NewJob]) -> list[Any]:
        """Store jobs; those that are alike and plain by a short script, unless it finds that there is more to do."""
        if plain := plain_wishes(jobs):
            first = jobs[0]
            run = self._keyspace.run("enqueue_plain", queue=first.queue, priority=first.priority, wishes=plain)
            if (taken := await run) is not None:
                return list(taken)
        wishes: list[Any] = []
        for job in jobs:
            wishes += wish(job)
        return list(await self._keyspace.run("enqueue", wishes=wishes))

    async def exchange(self, settlements: Sequence[Settlement], ask: Ask | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step."""
        edge.settlements(settlements)
        given = settlement_arguments(settlements)
        if ask is not None:
            self._keyspace.asked[ask.worker] = tuple([share.queue for share in ask.shares])
        return exchange_of(await self._keyspace.run("exchange", **given, **ask_arguments(ask)), ask)

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

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Keep = KEEP_DEAD) -> list[Lost]:
        """Take back leases that ran out, at most as many as the limit, and say which."""
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
        """Make jobs ready that wait for this reason, those that wait longest first, at most as many as the limit."""
        edge.limit(limit)
        edge.release(reason, tasks)
        if tasks is not None and not tasks:
            return 0
        return int(await self._keyspace.run("release", reason=reason.value, limit=limit, tasks=list(tasks or ())))

    async def cancel(self, ids: Sequence[JobId], *, keep: Keep = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and answer where each stands now."""
        edge.ids(ids)
        if not ids:
            return []
        states = await self._keyspace.run("cancel", keep=keep_text(keep), targets=list(ids))
        return [State(state.decode()) if state else None for state in states]

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and say which were."""
        return await self._each("replay", ids)

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and say which were."""
        return await self._each("promote", ids)

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Keep the latest progress of running jobs."""
        edge.notes(notes)
        if not notes:
            return []
        rows: list[bytes] = []
        for lease, progress in notes:
            rows += (lease.id, lease.token, progress)
        return [_NOTED[letter] for letter in await self._keyspace.run("note", notes=rows)]

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, Job | None]:
        """Register interest in the end of jobs for a time, and answer those that have ended already, and None for unknown ones."""
        edge.ttl(ttl)
        edge.ids(ids)
        if not ids:
            return {}
        over = await self._keyspace.run("watch", ttl=ttl, targets=list(ids))
        found = zip(over, await self.get(over), strict=True)
        return {id: job for id, job in found if job is None or job.state.ended}  # noqa: A001

    async def prune(self, limit: int) -> Pruned:
        """Remove records and results of ended jobs beyond their keep, oldest first, at most as many as the limit."""
        edge.limit(limit)
        jobs, others, more = await self._keyspace.run(
            "prune", limit=limit, remember_chosen=REMEMBER, remember_other=10 * LEASE
        )
        return Pruned(jobs, others, bool(more))

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and say which were there."""
        return await self._each("drop", ids)

    async def get(self, ids: Sequence[JobId]) -> list[Job | None]:
        """Answer each id with all that is known of its job, or None."""
        edge.ids(ids)
        if not ids:
            return []
        found = await self._keyspace.run("get", targets=list(ids))
        return [job_of(id, packed) if packed else None for id, packed in zip(ids, found, strict=True)]  # noqa: A001

    async def find(self, filter: Filter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """Look at no more than a thousand jobs and answer those that fit, with a cursor while there may be more."""
        edge.limit(limit)
        return await self._pages.find(filter, limit, cursor)

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state."""
        return counts_of(await self._keyspace.read("HGETALL", "counts"))

    async def _each(self, verb: str, ids: Sequence[JobId]) -> list[bool]:
        edge.ids(ids)
        if not ids:
            return []
        return [bool(answer) for answer in await self._keyspace.run(verb, targets=list(ids))]


def counts_of(fields: Sequence[bytes]) -> dict[str, Counts]:
    """Counters by queue and state."""
    counts: dict[str, dict[State, int]] = defaultdict(dict)
    for field, number in zip(fields[::2], fields[1::2], strict=True):
        if field:
            queue, _, state = field.decode(errors="replace").rpartition("\x1f")
            counts[queue][State(state)] = int(number)
    return dict(counts)
