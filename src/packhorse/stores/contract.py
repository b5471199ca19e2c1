"""The seam: what every store promises. Each sentence in a verb's docstring has a conformance test of that name.

Every write verb is atomic and harmless when repeated with the same ids or tokens after a lost answer. Every call ends
ok, with a definite error, or as ``OutcomeUnknown``. Arguments are checked ``model`` values; all times are whole
microseconds of the store's own clock.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from packhorse.model.effect import Effect, Publish, Put
from packhorse.model.event import Event, StreamBounds
from packhorse.model.finding import Finding
from packhorse.model.ids import JobId
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, MAX_LOST, NewJob, Pruned, Receipt, Retention, State, StoredJob
from packhorse.model.layout import MigrationStep
from packhorse.model.lease import ClaimRequest, Exchange, Lease, Lost, Renewed, Settlement, Verdict
from packhorse.model.page import Filter, Page
from packhorse.model.queue import Counts, QueueStats
from packhorse.model.reason import WaitReason
from packhorse.model.record import Record
from packhorse.model.worker import WorkerInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """Work for a connection of the caller's: one statement with one text parameter ($1), which answers one text or null."""

    text: str
    value: str
    read: Callable[[str | None], T]


@dataclass(frozen=True, slots=True)
class Routine(Generic[T]):
    """Work for a connection of the caller's: to be run with its ``sqlite3.Connection``, on its thread."""

    run: Callable[[Any], T]


Work = Statement[T] | Routine[T]


class Topic(StrEnum):
    """What a listener wants to be woken for."""

    WORK = "work"
    ENDS = "ends"


class Within(Protocol):
    """Verbs as work for a connection of the caller's own: part of its transaction, and neither begun nor ended here.

    Nothing is done until the work is run. A connection to another database than the store's is refused.
    """

    def enqueue(self, jobs: Sequence[NewJob]) -> Work[list[Receipt]]:
        """Store jobs within a transaction of the caller's own.

        Jobs enqueued within a transaction are there once it is committed, and wake a worker.
        Jobs enqueued within a transaction that is rolled back were never there.
        A laned job that was committed is not overtaken by one that was enqueued after that.
        """

    def check(self) -> Work[None]:
        """Refuse a transaction of the caller's own in which nothing could be settled, before anything is written in it."""

    def settle(
        self, settlements: Sequence[Settlement], notes: Sequence[tuple[Lease, bytes]] = ()
    ) -> Work[tuple[Verdict, ...]]:
        """Write outcomes with their effects within a transaction of the caller's own.

        A settlement within a transaction that is rolled back leaves the lease as it was.
        The last notes of attempts are kept with their settlements within a transaction.
        Held steps within a transaction are there with the settlement that comes after them.
        """


class Row(Protocol):
    """A row that a statement answered: its values by position or by name."""

    def __getitem__(self, key: Any, /) -> Any: ...

    def keys(self) -> Any: ...  # noqa: D102


class Transaction(Protocol):
    """What one attempt writes, and its settlement: committed together, or not at all.

    Statements are those of the database, with its own placeholders; they fail with the errors of its driver.
    ``begun`` says whether anything was asked of it: until then nothing is open.
    """

    begun: bool

    async def execute(self, sql: str, *params: object) -> int:
        """Run a statement of the attempt and answer how many rows it changed.

        What a transaction wrote is seen by nobody else before it is settled.
        A statement that fails is the attempt's to handle.
        A statement that would end the transaction is refused.
        A transaction that is over takes no more statements.
        """

    async def fetch(self, sql: str, *params: object) -> list[Row]:
        """Run a statement of the attempt and answer its rows, by position and by name."""

    async def connection(self) -> object:
        """Answer the connection itself where it can be given out, or refuse."""

    async def settle(
        self, settlement: Settlement, notes: Sequence[tuple[Lease, bytes]] = (), held: Sequence[Settlement] = ()
    ) -> Verdict:
        """Write an outcome with its effects and commit all that was written; if it is not written, roll all of it back.

        What an attempt wrote, its outcome and its effects are there together.
        The last note of an attempt is kept with its settlement.
        Held steps are written before the settlement unless they were written already.
        Held steps with a settlement that is not written are dropped.
        A lease that was lost rolls back what was written in its name.
        A put whose expectation fails rolls back what was written with it.
        A settlement repeated after its transaction was committed comes back as repeated.
        Nothing that a transaction sets on its connection meets the next one.
        """

    async def roll_back(self) -> None:
        """Undo what was written, and keep the lease.

        Rolling back a transaction that is over, or never began, is harmless.
        """


class Jobs(Protocol):
    """The life of jobs."""

    def within(self) -> Within:
        """Answer what can be part of a transaction of the caller's own, or refuse where nothing can."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store jobs, all or none, and say for each which job stands for it.

        A job without delay is ready.
        A job due later is scheduled and can be leased when its moment has come.
        A moment in the past makes a job ready at once.
        An id that is there already gives the first job and creates nothing.
        The same id twice in one call creates one job.
        A unique key that is taken gives its holder and creates nothing.
        A unique window starts with the first job, is not extended by duplicates and outlives the job.
        A key unique until started is free once the job was leased.
        A key unique until finished is free once the job has ended.
        As many jobs of a lane as its limit are ready or running, the rest wait in order of arrival.
        A scheduled job asks its lane when its moment has come.
        A job of a lane whose moment has come is not overtaken by one that is enqueued later.
        A promoted or replayed job, and a parent whose children have ended, stands behind jobs of its lane whose moment has come.
        A job with children waits until that many have ended.
        More jobs than the cap are refused and none is stored.
        More bytes than the cap are refused and none is stored.
        """

    async def exchange(self, settlements: Sequence[Settlement], ask: ClaimRequest | None = None) -> Exchange:
        """Write outcomes with their effects, then lease ready jobs, in one atomic step.

        Each settlement is written whole or not at all, and has its own verdict.
        A stale token changes nothing and comes back as lost.
        The same token again changes nothing and comes back as repeated.
        A done job keeps its result.
        A job to be run again is ready, or scheduled if there is a delay, and keeps its last ten failures.
        An uncharged try does not count.
        A waiting job shows its reason and detail, and its try does not count.
        A settlement that waits for something already there makes the job ready instead.
        A dead job keeps its reason and its failure.
        A cancelled job keeps its failure if it has one.
        A held job keeps its lease while its effects are written.
        A held step that was written already comes back as repeated.
        A retry or a wait of a job that is to be cancelled ends it as cancelled.
        Effects of a retry or a wait that ends as cancelled are dropped.
        A put whose expectation fails writes nothing of its settlement and comes back as conflict.
        Effects of a settlement that is not written are dropped.
        Work that a settlement made ready is leased in the same call.
        Leases come best first: by priority, then by the moment of becoming ready, then by arrival.
        Each lease counts an attempt.
        A running job shows since when it is leased, and when its lease runs out.
        Shares bound each queue, and what one cannot fill goes to the others in the order asked, up to their most.
        Payloads and headers of all leases together fit in the bytes of the ask, but one job is always leased.
        A job that does not fit stays ready in its place, and none behind it is leased.
        A paused queue gives no leases.
        Every lease of a job has a higher fence than the one before, even after the clock was set back.
        A job that has ended is not leased again, even after the clock was set back.
        The same ask again gives the same leases.
        The same ask again for fewer bytes makes leases that do not fit ready again, uncharged.
        An ask below the last one of its worker gets nothing.
        An ask that got nothing when it was made again gets nothing later.
        More says that ready work of the asked queues was left behind.
        The next due moment is that of the earliest scheduled job of the asked queues.
        The end of a laned job hands its slot to the next in line.
        A retry keeps its slot, so order in a lane survives retries.
        A job that waits for children hands its slot to the next in line, and asks its lane again when they have ended.
        The end of a child is delivered to its parent and counted once.
        The end of the last child makes the parent ready.
        A parent that has ended is notified of its children as long as it is kept.
        A job whose record is damaged is leased, and so are its neighbours.
        """

    async def fire(self, moves: Sequence[Sequence[Effect]]) -> list[Verdict]:
        """Write effects that belong to no lease, in order.

        Each move is written whole or not at all, and has its own verdict.
        A put whose expectation fails writes nothing of its move and comes back as conflict.
        What a move puts is expected by the next.
        Jobs of a move are enqueued as any others.
        """

    async def renew(self, leases: Sequence[Lease], duration: int) -> list[Renewed]:
        """Extend leases by this duration from now.

        A renewal does not change since when a job is running.
        A lease that is gone or has another token is lost.
        A lease that ran out but was not taken back is kept.
        A lease of a job that is to be cancelled is extended and says so.
        """

    async def reap(self, limit: int, *, max_lost: int = MAX_LOST, keep: Retention = KEEP_DEAD) -> list[Lost]:
        """Take back leases that ran out, at most as many as the limit, and say which.

        A lease that is not over stays.
        A job taken back is ready again and keeps its slot in its lane.
        The first loss of a job counts.
        A later loss counts if a held step says that the attempt had begun.
        An attempt of a job lost before that held no step had not begun and is not charged.
        A job that was lost too often is dead as poison if its last attempt held a step.
        A job that is to be cancelled is cancelled when its lease is taken back.
        The answer names the worker of each lease and the attempts of its job.
        """

    async def release(self, reason: WaitReason, *, tasks: Sequence[str] | None = None, limit: int = 500) -> int:
        """Make jobs ready that wait for this reason, those that wait longest first, at most as many as the limit.

        With tasks given, only jobs of those tasks are released.
        Jobs behind a lane or waiting for children are not for release, and asking for it is refused.
        """

    async def cancel(self, ids: Sequence[JobId], *, keep: Retention = KEEP_DONE) -> list[State | None]:
        """End jobs that are not running, ask running ones to stop, and answer where each stands now.

        A job that has ended stays as it is, and an unknown one is None.
        A cancelled job hands on its slot, frees its unique key and is delivered to its parent.
        """

    async def replay(self, ids: Sequence[JobId]) -> list[bool]:
        """Make dead or cancelled jobs ready again with attempts and losses at zero, and say which were.

        A job that is not dead or cancelled stays as it is.
        A replayed job asks its lane again.
        A replayed job takes back what it has left for its parent.
        A replayed parent waits for children whose ends are not delivered, also for those replayed in the same call.
        A job whose unique key was taken meanwhile stays as it is.
        """

    async def promote(self, ids: Sequence[JobId]) -> list[bool]:
        """Make scheduled jobs, and jobs that wait for a person, ready now, and say which were.

        A promoted job asks its lane, unless it holds a slot already.
        A job whose moment has come, or that stands elsewhere, stays as it is.
        """

    async def note(self, notes: Sequence[tuple[Lease, bytes]]) -> list[Verdict]:
        """Keep the latest progress of running jobs.

        A note with a stale token changes nothing and comes back as lost.
        """

    async def watch(self, ids: Sequence[JobId], ttl: int) -> dict[JobId, StoredJob | None]:
        """Register interest in the end of jobs for a time, and answer those that have ended already, and None for unknown ones.

        A job that is watched when it ends stays for ten seconds, or until its watch is over.
        """

    async def prune(self, limit: int) -> Pruned:
        """Remove records and results of ended jobs beyond their keep, oldest first, at most as many as the limit.

        Of the ended jobs of a queue with the same end and the same keep, the newest stay up to its count and its age.
        A pruned chosen id is remembered for seven days, and any other for ten leases.
        A settlement repeated after its job was pruned comes back as repeated.
        What was delivered to a pruned parent goes with it.
        Records, watches, workers and unique windows that are over are removed and counted, of each at most as many as the limit.
        More says that something may be left that is beyond its keep or over.
        A call looks at no more than five hundred different keeps, and the next one at the next.
        A keep that no ended job has any more is forgotten within hours.
        A queue that holds no job any more and is not paused is forgotten.
        Of the lifecycle of jobs the newest events stay, up to ten thousand and about sixteen mebibytes.
        The answer counts the removed dead jobs of each queue, and has the moment when the newest of them died.
        """

    async def drop(self, ids: Sequence[JobId]) -> list[bool]:
        """Remove jobs with all that belongs to them, whatever their state, and say which were there.

        The id of a dropped job is free again.
        A dropped job hands on its slot, frees its unique key and is delivered to its parent.
        The lease of a dropped job is lost.
        A damaged job can be cancelled, replayed and dropped.
        """

    async def get(self, ids: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
        """Answer each id with all that is known of its job, or None.

        Without bodies, payload, result and tracebacks come empty.
        Of a damaged record what can be read is answered.
        A reason that is not known is left out.
        A failure that cannot be read is answered as such.
        """

    async def find(
        self, filter: Filter, *, limit: int = 100, cursor: str | None = None, bodies: bool = True
    ) -> Page[StoredJob]:
        """Look at no more than a thousand jobs and answer those that fit, with a cursor while there may be more.

        Following the cursor visits every job that does not move exactly once.
        Within a queue, scheduled jobs come soonest first, ready ones best first, waiting ones longest first, ended ones newest first.
        Without a queue, ended jobs of one state come newest first over all queues.
        Jobs that are found without bodies come as get answers them without bodies.
        """

    async def count(self) -> Mapping[str, Counts]:
        """Count the jobs of every queue by state.

        Damaged records are found and counted like others.
        """


class Queues(Protocol):
    """Queues as a whole."""

    async def pause(self, queues: Sequence[str]) -> None:
        """A paused queue takes jobs and gives none."""

    async def resume(self, queues: Sequence[str]) -> None:
        """A resumed queue gives jobs again."""

    async def stats(self) -> list[QueueStats]:
        """Answer every queue by name, with its counts, whether it is paused, its oldest ready and its next due moment.

        Totals say how many jobs of a queue were ever enqueued, and how many ever ended in each state.
        Jobs that were pruned, dropped or replayed stay in the totals.
        A queue that was forgotten goes on with its totals when it holds jobs again.
        """


class Records(Protocol):
    """Small keyed values with versions."""

    async def put(self, puts: Sequence[Put]) -> list[int | None]:
        """Write records by compare-and-set and answer each new version, or None where the expectation failed.

        A version rises with every write.
        A record that has expired is absent.
        Putting no value drops the record and answers zero.
        A put makes the jobs ready that wait for its record.
        """

    async def get(self, kind: str, keys: Sequence[str]) -> list[Record | None]:
        """Answer each key with its record, or None."""

    async def find(self, kind: str, *, prefix: str = "", limit: int = 100, cursor: str | None = None) -> Page[Record]:
        """Answer the records of a kind whose key begins with a prefix, in the order of their keys, page by page."""

    async def due(self, kind: str, limit: int) -> list[Record]:
        """Answer records whose due moment has come, soonest first."""

    async def drop(self, kind: str, keys: Sequence[str]) -> int:
        """Remove records and say how many were there."""


class Streams(Protocol):
    """Append-only logs of events."""

    async def publish(self, events: Sequence[Publish]) -> list[int]:
        """Append events, all or none, and answer their offsets.

        Offsets of a stream begin at one and rise by one.
        The stream of the lifecycle of jobs takes no events from outside.
        """

    async def read(self, stream: str, *, after: int = 0, limit: int = 100) -> list[Event]:
        """Answer the events after an offset, oldest first.

        Each call that changes jobs adds one packed event to the stream of the lifecycle of jobs.
        An entry that is damaged does not hide the next.
        A job died at the moment of the event that says so, and so did its last failure, unless it was taken back as poison.
        The failure of a job has the moment of the event that tells of it.
        A job is running, waiting or ended since the moment of the event that tells of it.
        """

    async def bounds(self, stream: str) -> StreamBounds:
        """Answer the offsets of the first and the last event that a stream keeps.

        The bounds of a stream that was never written are one and zero.
        The bounds of a stream whose events were all trimmed are the next offset and the last one given.
        """

    async def trim(self, stream: str, below: int, limit: int) -> int:
        """Remove the oldest events below an offset, at most as many as the limit, and answer how many were removed.

        An event at the offset or above it stays.
        A trim that is repeated removes what is left below its offset, and then nothing.
        Offsets of a trimmed stream go on after the last one given.
        The newest event of the lifecycle of jobs stays.
        """

    def wakes(self, stream: str) -> AsyncGenerator[None, None]:
        """Yield at once, and then whenever a stream may have new events; hints may be missed or come for nothing.

        A publish by another process wakes the readers of its stream.
        A call that changes jobs wakes the readers of their lifecycle.
        Readers get no more hints once the store is closed.
        """


class Fleet(Protocol):
    """The workers that live."""

    async def beat(self, worker: WorkerInfo, ttl: int) -> None:
        """Say that a worker lives, for so long; no time at all says goodbye."""

    async def workers(self) -> list[WorkerInfo]:
        """Answer the workers whose last beat is not over, by name.

        A worker whose last beat cannot be read is left out.
        """


class Store(Protocol):
    """Where all state is kept."""

    @property
    def jobs(self) -> Jobs: ...  # noqa: D102
    @property
    def queues(self) -> Queues: ...  # noqa: D102
    @property
    def records(self) -> Records: ...  # noqa: D102
    @property
    def streams(self) -> Streams: ...  # noqa: D102
    @property
    def fleet(self) -> Fleet: ...  # noqa: D102

    async def open(self) -> None:
        """Connect, and refuse a layout that this release cannot work with, saying what to do.

        A layout with steps of a newer release is refused unless all of them are compatible.
        """

    async def close(self) -> None:
        """Let go of everything; a closed store refuses calls, and closing twice is harmless."""

    async def migrate(self) -> list[str]:
        """Bring the layout up to date and answer the names of the steps taken.

        An up-to-date store takes no step.
        Two migrators at once take each step once.
        A step that was changed after it was taken is refused.
        """

    async def steps(self) -> list[MigrationStep]:
        """Answer the steps of the layout in order, each with its text and how it stands.

        Looking at the steps changes nothing and needs no open store.
        A step that was changed after it was taken is shown as changed.
        A step that only a newer release knows is shown as unknown.
        Each step says whether older releases work with it, also one that only a newer release knows.
        """

    async def examine(self) -> list[Finding]:
        """Answer what is in force below the store, each with a grade, and with advice where something should change.

        Looking at what is in force changes nothing and needs no open store.
        A place that is not reached cannot be looked at.
        """

    async def ping(self) -> int:
        """Answer with the store's time."""

    def clone(self) -> "Store":
        """Answer a second store of the same place, to be opened and used on another event loop.

        What one writes the other sees, and closing one leaves the other open.
        """

    def transaction(self, limit: int) -> Transaction:
        """Answer a transaction for one attempt, not begun, or refuse where there are none.

        Where it holds up all other writers, a transaction that is open for longer than the limit is rolled back.
        """

    async def maintain(self) -> list[str]:
        """Tidy up what many writes leave behind, if there is much of it, and answer what was tidied.

        Nothing that is stored changes.
        """

    def wakes(self, topic: Topic) -> AsyncIterator[None]:
        """Yield whenever there may be something to look for; hints may be missed or come for nothing.

        Work made ready wakes a worker whose last ask came back empty.
        The end of a watched job wakes those who listen for ends.
        """

    @property
    def parked_claims(self) -> "ParkedClaims | None": ...  # noqa: D102


class WorkHint(StrEnum):
    """What a listener of one worker reports besides the answer of a parked claim."""

    WORK = "work"  # there may be work; a parked claim may have been missed
    WAITING = "waiting"  # a wait for work has begun: a claim can be parked behind it


class WorkListener(Protocol):
    """Hints for one worker, with room for one claim that the store makes as soon as there is work."""

    def events(self) -> AsyncIterator[Exchange | WorkHint]: ...  # noqa: D102

    def park(self, claim: ClaimRequest) -> bool:
        """Park a claim behind the wait for work that is under way, or answer False if none is.

        The event after a claim was parked brings its answer, or a hint: then the same claim again gives the same leases.
        """


class ParkedClaims(Protocol):
    """An optional capability of a store, None where it has none: claims that wait for work at the store."""

    def listener(self, worker: bytes) -> WorkListener:
        """Listen for one worker: workers of one store that serve different queues are each woken for their own."""
