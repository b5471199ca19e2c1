"""The life of jobs: each verb is one call."""

from collections.abc import Mapping, Sequence

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.effect import Effect
from packhorse.model.event import Change, pack
from packhorse.model.ids import JobId
from packhorse.model.job import (
    KEEP_DEAD,
    KEEP_DONE,
    KEEP_WATCHED,
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
from packhorse.stores.postgres import rows, wire
from packhorse.stores.postgres.database import Row, Taken
from packhorse.stores.postgres.hints import Hints
from packhorse.stores.postgres.listing import Listing
from packhorse.stores.postgres.namespace import Namespace
from packhorse.stores.postgres.within import PostgresWithin

_EVENTS = 10_000
_NO_ASK = (None,) * 10


class PostgresJobs:
    """The jobs of a namespace."""

    def __init__(self, namespace: Namespace, hints: Hints) -> None:
        self._namespace = namespace
        self._hints = hints
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
            given = wire.jobs(jobs)
            for n, holder in await self._namespace.write(
                "enqueue", given.texts, given.keyed, given.laned, self._namespace.events, self._namespace.now()
            ):
                receipts[n - 1] = Receipt(holder, False)
        return receipts

    async def _enqueued(self, jobs: Sequence[NewJob]) -> bool:
        """Store jobs the short way, if all are plain and new."""
        columns = wire.plain(jobs)
        if columns is None:
            return False
        event = pack({Change.ENQUEUED: columns[0]}) if self._namespace.events else None
        try:
            await self._namespace.write("enqueue_plain", *columns, event, self._namespace.now())
        except Taken:
            return False
        return True

    async def exchange(self, settlements: Sequence[Settlement], ask: Ask | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step."""
        caps.items("settlements", settlements)
        given = wire.settlements(settlements)
        *answers, (*_, more, next_due, now, began, fence) = await self._namespace.write_soon(
            "exchange",
            given.ids, given.tokens, given.results, given.unusual,
            *(_NO_ASK if ask is None else (*_asked(ask), self._hints.given())),
            KEEP_DONE.count, KEEP_DONE.age, caps.FAILURES, self._namespace.events, self._namespace.now(),
        )  # fmt: skip
        self._hints.learnt(began)
        verdicts = [Verdict.WRITTEN] * len(settlements)
        for answer in answers:
            if answer[0] is None:
                break  # the refused come first, then the leases
            verdicts[answer[0] - 1] = Verdict(answer[1])
        leases = [rows.lease(ask.token, fence, answer) for answer in answers if answer[0] is None] if ask else []
        return Exchange(tuple(verdicts), tuple(leases), more, next_due, now)

    async def fire(self, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
        """Write effects that belong to no lease, each move whole or not at all."""
        edge.moves(moves)
        refused = await self._namespace.write("fire", wire.moves(moves), self._namespace.events, self._namespace.now())
        numbers = {n for (n,) in refused}
        return [Verdict.CONFLICT if n in numbers else Verdict.WRITTEN for n in range(1, len(moves) + 1)]

    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        """Extend leases by this duration from now."""
        caps.items("leases", leases)
        caps.span("duration", duration, 1)
        answers = await self._namespace.write_soon(
            "renew", [lease.id for lease in leases], [lease.token for lease in leases], duration, self._namespace.now()
        )
        return [Renewed(word) for (word,) in answers]

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Keep = KEEP_DEAD) -> list[Lost]:
        """Take back leases that ran out, at most as many as the limit, and say which."""
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        caps.within("max lost", max_lost, 1, 2**31 - 1)
        taken = await self._namespace.write(
            "reap", limit, max_lost, keep.count, keep.age, KEEP_DONE.count, KEEP_DONE.age,
            self._namespace.events, self._namespace.now(),
        )  # fmt: skip
        return [Lost(job, worker, attempt, lost, State(state)) for job, worker, attempt, lost, state in taken]

    async def release(self, reason: WaitReason, *, tasks: Sequence[str] | None = None, limit: int = 500) -> int:
        """Make jobs ready that wait for this reason, those that wait longest first, at most as many as the limit."""
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        if reason in (WaitReason.LANE, WaitReason.CHILDREN):
            raise InvalidOption("release", reason.value, "lanes and children let their jobs go by themselves")
        caps.items("tasks", tasks or ())
        for task in tasks or ():
            caps.name("task", task)
        [[released]] = await self._namespace.write(
            "release", reason.value, tasks, limit, self._namespace.events, self._namespace.now()
        )
        return int(released)

    async def cancel(self, ids: Sequence[JobId], *, keep: Keep = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and answer where each stands now."""
        edge.ids(ids)
        found = await self._namespace.write(
            "cancel", ids, keep.count, keep.age, self._namespace.events, self._namespace.now()
        )
        states = {job: State(state) for job, state in found}
        return [states.get(job) for job in ids]

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and say which were."""
        edge.ids(ids)
        return _each(ids, await self._namespace.write("replay", ids, self._namespace.events, self._namespace.now()))

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and say which were."""
        edge.ids(ids)
        return _each(ids, await self._namespace.write("promote", ids, self._namespace.events, self._namespace.now()))

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Keep the latest progress of running jobs."""
        caps.items("notes", notes)
        for _, progress in notes:
            caps.text("progress", progress, caps.VALUE)
        leases = [lease for lease, _ in notes]
        written = await self._namespace.write(
            "note", [lease.id for lease in leases], [lease.token for lease in leases], [note for _, note in notes]
        )
        positions = {n for (n,) in written}
        return [Verdict.WRITTEN if n in positions else Verdict.LOST for n in range(1, len(notes) + 1)]

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, Job | None]:
        """Register interest in the end of jobs for a time, and answer those that have ended already, and None for unknown ones."""
        edge.ids(ids)
        caps.span("ttl", ttl)
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
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        [[jobs, others, more, self._after_shelf]] = await self._namespace.write(
            "prune", limit, REMEMBER, 10 * LEASE, KEEP_WATCHED, _EVENTS, self._after_shelf, self._namespace.now()
        )
        return Pruned(jobs, others, more)

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and say which were there."""
        edge.ids(ids)
        return _each(ids, await self._namespace.write("drop", ids, self._namespace.now()))

    async def get(self, ids: Sequence[JobId]) -> list[Job | None]:
        """Answer each id with all that is known of its job, or None."""
        edge.ids(ids)
        found = {row[0]: rows.job(row) for row in await self._namespace.read("get", ids)}
        return [found.get(job) for job in ids]

    async def find(self, filter: Filter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """Look at no more than a thousand jobs and answer those that fit, with a cursor while there may be more."""
        caps.within("limit", limit, 1, caps.LOOKED_AT)
        return await self._listing.page(filter, limit, cursor)

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state."""
        return {queue: rows.counts(numbers) for queue, *numbers in await self._namespace.read("count")}


def _asked(ask: Ask) -> tuple[object, ...]:
    shares = ask.shares
    return (
        ask.worker,
        ask.token,
        ask.lease,
        ask.number,
        ask.again,
        [share.queue for share in shares],
        [share.count for share in shares],
        [share.most for share in shares],
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
