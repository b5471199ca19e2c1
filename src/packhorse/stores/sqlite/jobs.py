"""The life of jobs: each verb checks its arguments at the edge and runs as one step."""

from collections.abc import Mapping, Sequence

from packhorse.model.effect import Effect
from packhorse.model.ids import JobId
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, MAX_LOST, NewJob, Pruned, Receipt, Retention, State, StoredJob
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Lost, Renewed, Settlement, Verdict
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts
from packhorse.model.reason import WaitReason
from packhorse.stores import edge
from packhorse.stores.sqlite import lifecycle, reads
from packhorse.stores.sqlite.claim import claim, nothing
from packhorse.stores.sqlite.enqueue import enqueue
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.queues import counts
from packhorse.stores.sqlite.settle import SettlementWriter, fire, keep_notes, refs
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json
from packhorse.stores.sqlite.within import SQLiteWithin


class SQLiteJobs:
    """The life of jobs."""

    def __init__(self, database: StoreHandle) -> None:
        self._database = database
        self._after_group = 0  # where the next prune goes on

    def within(self) -> SQLiteWithin:
        """Answer what can be part of a transaction of the caller's own."""
        return SQLiteWithin(self._database.database)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none, and say for each which job stands for it."""
        edge.jobs(jobs)
        return await self._database.write(lambda step: enqueue(step, jobs))

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step."""
        edge.settlements(settlements)

        def work(step: UnitOfWork) -> Exchange:
            leases = [settlement.lease for settlement in settlements]
            verdicts = tuple(SettlementWriter(step, leases).all(settlements)) if settlements else ()
            if ask is None:
                return Exchange(verdicts, (), False, None, step.now)
            got = claim(step, ask)
            return Exchange(verdicts, got.leases, got.more, got.next_due, step.now)

        def look_only(step: UnitOfWork) -> Exchange | None:
            return nothing(step, ask) if ask is not None else None

        return await self._database.write(work, skip=None if settlements else look_only)

    async def fire(self, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
        """Write effects that belong to no lease, each move whole or not at all."""
        edge.moves(moves)
        return await self._database.write(lambda step: fire(step, moves))

    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        """Extend leases by this duration from now."""
        edge.renewals(leases, duration)

        def work(step: UnitOfWork) -> list[Renewed]:
            seqs = refs(step, leases)
            held = {row[0]: row for row in step.rows(SQL.leases_of, as_json(seqs))}
            answers, kept = [], []
            for lease, seq in zip(leases, seqs, strict=True):
                row = held.get(seq)
                if row is None or row[6] != lease.token:
                    answers.append(Renewed.LOST)
                else:
                    kept.append(seq)
                    answers.append(Renewed.CANCELLING if row[8] else Renewed.KEPT)
            step.run(SQL.renew, step.now + duration, as_json(kept))
            return answers

        return await self._database.write(work, urgent=True)

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Retention = KEEP_DEAD) -> list[Lost]:
        """Take back leases that ran out, at most as many as the limit, and say which."""
        edge.limit(limit)
        edge.losses(max_lost)
        return await self._database.write(lambda step: lifecycle.reap(step, limit, max_lost, keep))

    async def release(self, reason: WaitReason, *, tasks: Sequence[str] | None = None, limit: int = 500) -> int:
        """Make jobs ready that wait for this reason, those that wait longest first."""
        edge.limit(limit)
        edge.release(reason, tasks)
        return await self._database.write(lambda step: lifecycle.release(step, reason, tasks, limit))

    async def cancel(self, ids: Sequence[JobId], *, keep: Retention = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and answer where each stands now."""
        edge.ids(ids)
        return await self._database.write(lambda step: lifecycle.cancel(step, ids, keep))

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and say which were."""
        edge.ids(ids)
        return await self._database.write(lambda step: lifecycle.replay(step, ids))

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and say which were."""
        edge.ids(ids)
        return await self._database.write(lambda step: lifecycle.promote(step, ids))

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Keep the latest progress of running jobs."""
        edge.notes(notes)
        return await self._database.write(lambda step: keep_notes(step, notes))

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, StoredJob | None]:
        """Register interest in the end of jobs for a time, and answer those that have ended already, and None for unknown ones.

        Every change of the file is a hint: a watch only keeps a job from being pruned, and is written again once half
        of its time is over.
        """
        edge.ids(ids)
        edge.ttl(ttl)
        unwatched, ended = await self._database.read(lambda step: reads.watchable(step, ids, ttl // 2))
        if not unwatched:
            return ended
        rows = [(seq,) for seq in unwatched]
        await self._database.write(lambda step: step.put(SQL.watch, rows, step.now + ttl))
        _, later = await self._database.read(lambda step: reads.watchable(step, ids, 0))
        return later | ended

    async def prune(self, limit: int) -> Pruned:
        """Remove records and results of ended jobs beyond their keep."""
        edge.limit(limit)
        after = self._after_group
        pruned, self._after_group = await self._database.write(lambda step: lifecycle.prune(step, limit, after))
        return pruned

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and say which were there."""
        edge.ids(ids)
        return await self._database.write(lambda step: lifecycle.drop(step, ids))

    async def get(self, ids: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
        """Answer each id with all that is known of its job, or None."""
        edge.ids(ids)
        edge.bodies(bodies)
        return await self._database.read(lambda step: reads.get(step, ids, bodies=bodies))

    async def find(
        self, filter: Filter, *, limit: int = 100, cursor: str | None = None, bodies: bool = True
    ) -> Page[StoredJob]:
        """Look at no more than a thousand jobs and answer those that fit."""
        edge.limit(limit)
        edge.bodies(bodies)
        return await self._database.read(lambda step: reads.find(step, filter, limit, cursor, bodies=bodies))

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state."""
        return await self._database.read(counts)
