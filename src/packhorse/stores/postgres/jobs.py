"""The life of jobs: each verb is one call."""

from collections.abc import Mapping, Sequence

from packhorse.model import event, limits
from packhorse.model.effect import Effect
from packhorse.model.event import Change, pack
from packhorse.model.ids import JobId
from packhorse.model.job import (
    KEEP_DEAD,
    KEEP_DONE,
    KEEP_WATCHED_US,
    LEASE_US,
    MAX_LOST,
    REMEMBER_US,
    NewJob,
    Pruned,
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
from packhorse.stores.postgres import encoding, rows
from packhorse.stores.postgres.bookmarks import ClaimBookmarks
from packhorse.stores.postgres.database import DuplicateId, Row
from packhorse.stores.postgres.listing import Listing
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.postgres.within import PostgresWithin

_NO_ASK = (None,) * 10


class PostgresJobs:
    """The jobs of a namespace."""

    def __init__(self, namespace: Namespace, bookmarks: ClaimBookmarks) -> None:
        self._namespace = namespace
        self._bookmarks = bookmarks
        self._after_shelf = 0  # where the next prune goes on
        self._listing = Listing(namespace, self.get, self.count)

    def within(self) -> PostgresWithin:
        """Answer what can be part of a transaction of the caller's own."""
        return PostgresWithin(self._namespace)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none, and say for each which job stands for it."""
        edge.jobs(jobs)
        receipts = [Receipt(job.id, True) for job in jobs]
        if not await self._enqueued(jobs):
            given = encoding.jobs(jobs)
            for n, holder in await self._namespace.call(
                "enqueue", given.texts, given.keyed, given.laned, self._namespace.events, self._namespace.now()
            ):
                receipts[n - 1] = Receipt(holder, False)
        return receipts

    async def _enqueued(self, jobs: Sequence[NewJob]) -> bool:
        """Store jobs the short way, if all are plain and new."""
        columns = encoding.plain(jobs)
        if columns is None:
            return False
        packed = pack({Change.ENQUEUED: columns[0]}) if self._namespace.events else None
        try:
            await self._namespace.call("enqueue_plain", *columns, packed, self._namespace.now())
        except DuplicateId:
            return False
        return True

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step."""
        edge.settlements(settlements)
        given = encoding.settlements(settlements)
        [[verdicts, more, next_due, now, bookmarks, fence, *leases]] = await self._namespace.call_soon(
            "exchange",
            given.ids, given.tokens, given.results, given.unusual,
            *(_NO_ASK if ask is None else (*_asked(ask), self._bookmarks.to_send())),
            KEEP_DONE.count, KEEP_DONE.age, limits.FAILURES, self._namespace.events, self._namespace.now(),
        )  # fmt: skip
        self._bookmarks.remember(bookmarks)
        return Exchange(
            (Verdict.WRITTEN,) * len(settlements) if verdicts is None else tuple(Verdict(word) for word in verdicts),
            rows.leases(ask.token, fence, leases) if ask else (),
            more,
            next_due,
            now,
        )

    async def fire(self, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
        """Write effects that belong to no lease, each move whole or not at all."""
        edge.moves(moves)
        refused = await self._namespace.call(
            "fire", encoding.moves(moves), self._namespace.events, self._namespace.now()
        )
        numbers = {n for (n,) in refused}
        return [Verdict.CONFLICT if n in numbers else Verdict.WRITTEN for n in range(1, len(moves) + 1)]

    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        """Extend leases by this duration from now."""
        edge.renewals(leases, duration)
        answers = await self._namespace.call_soon(
            "renew", [lease.id for lease in leases], [lease.token for lease in leases], duration, self._namespace.now()
        )
        return [Renewed(word) for (word,) in answers]

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Retention = KEEP_DEAD) -> list[Lost]:
        """Take back leases that ran out, at most as many as the limit, and say which."""
        edge.limit(limit)
        edge.losses(max_lost)
        taken = await self._namespace.call(
            "reap", limit, max_lost, keep.count, keep.age, KEEP_DONE.count, KEEP_DONE.age,
            self._namespace.events, self._namespace.now(),
        )  # fmt: skip
        return [Lost(job, worker, attempt, lost, State(state)) for job, worker, attempt, lost, state in taken]

    async def release(self, reason: WaitReason, *, tasks: Sequence[str] | None = None, limit: int = 500) -> int:
        """Make jobs ready that wait for this reason, those that wait longest first, at most as many as the limit."""
        edge.limit(limit)
        edge.release(reason, tasks)
        [[released]] = await self._namespace.call(
            "release", reason.value, tasks, limit, self._namespace.events, self._namespace.now()
        )
        return int(released)

    async def cancel(self, ids: Sequence[JobId], *, keep: Retention = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and answer where each stands now."""
        edge.ids(ids)
        found = await self._namespace.call(
            "cancel", ids, keep.count, keep.age, self._namespace.events, self._namespace.now()
        )
        states = {job: State(state) for job, state in found}
        return [states.get(job) for job in ids]

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and say which were."""
        edge.ids(ids)
        return _each(ids, await self._namespace.call("replay", ids, self._namespace.events, self._namespace.now()))

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and say which were."""
        edge.ids(ids)
        return _each(ids, await self._namespace.call("promote", ids, self._namespace.events, self._namespace.now()))

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Keep the latest progress of running jobs."""
        edge.notes(notes)
        leases = [lease for lease, _ in notes]
        written = await self._namespace.call(
            "note", [lease.id for lease in leases], [lease.token for lease in leases], [note for _, note in notes]
        )
        positions = {n for (n,) in written}
        return [Verdict.WRITTEN if n in positions else Verdict.LOST for n in range(1, len(notes) + 1)]

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, StoredJob | None]:
        """Register interest in the end of jobs for a time, and answer those that have ended already, and None for unknown ones."""
        edge.ids(ids)
        edge.ttl(ttl)
        looked = await self._namespace.read("watchable", ids, ttl, self._namespace.now())
        if missing := [job for job, ended in looked if not ended]:
            await self._namespace.write("watch", missing, ttl, self._namespace.now())
            # All of them once more, however long they are watched: one may have ended or gone before it was.
            looked = [*looked, *await self._namespace.read("watchable", missing, 4 * ttl, self._namespace.now())]
        over = list(dict.fromkeys(job for job, ended in looked if ended))
        found = zip(over, await self.get(over), strict=True) if over else ()
        return {id: job for id, job in found if job is None or job.state.ended}  # noqa: A001

    async def prune(self, limit: int) -> Pruned:
        """Remove records and results of ended jobs beyond their keep, oldest first, at most as many as the limit."""
        edge.limit(limit)
        [[jobs, others, more, self._after_shelf, *dead]] = await self._namespace.call(
            "prune",
            limit,
            REMEMBER_US,
            10 * LEASE_US,
            KEEP_WATCHED_US,
            event.LIFECYCLE_MAX_EVENTS,
            event.LIFECYCLE_MAX_BYTES,
            self._after_shelf,
            self._namespace.now(),
        )
        return Pruned(jobs, others, more, rows.pruned_dead(*dead))

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and say which were there."""
        edge.ids(ids)
        return _each(ids, await self._namespace.call("drop", ids, self._namespace.now()))

    async def get(self, ids: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
        """Answer each id with all that is known of its job, or None."""
        edge.ids(ids)
        edge.bodies(bodies)
        found = {row[0]: rows.job(row, bodies=bodies) for row in await self._namespace.read("get", ids, bodies)}
        return [found.get(job) for job in ids]

    async def find(
        self, filter: Filter, *, limit: int = 100, cursor: str | None = None, bodies: bool = True
    ) -> Page[StoredJob]:
        """Look at no more than a thousand jobs and answer those that fit, with a cursor while there may be more."""
        edge.limit(limit)
        edge.bodies(bodies)
        return await self._listing.page(filter, limit, cursor, bodies=bodies)

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state."""
        return {queue: rows.counts(numbers) for queue, *numbers in await self._namespace.read("count")}


def _asked(ask: ClaimRequest) -> tuple[object, ...]:
    shares = ask.shares
    return (
        ask.worker,
        ask.token,
        ask.lease,
        ask.number,
        ask.again,
        [share.queue for share in shares],
        [share.count for share in shares],
        [share.limit for share in shares],
        ask.max_bytes,
    )


def _each(ids: Sequence[JobId], found: Sequence[Row]) -> list[bool]:
    """Whether each was found; an id that is given twice was there once."""
    there = {job for (job,) in found}
    answers = []
    for job in ids:
        answers.append(job in there)
        there.discard(job)
    return answers
