"""A store and the model of its rules, side by side: calls made on both, and what must agree after each."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant
from msgspec.structs import replace

from packhorse.model.effect import Effect, Enqueue, Publish, Put
from packhorse.model.event import LIFECYCLE, unpack
from packhorse.model.job import NewJob, Retention, State, StoredJob
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Share
from packhorse.model.limits import SECOND
from packhorse.model.outcome import Outcome, Wait
from packhorse.model.page import Filter
from packhorse.model.reason import WaitReason
from packhorse.model.record import DELIVERED
from packhorse.stores.contract import Store
from packhorse.testing import TurnedClock
from tests.conformance.invariants import check, plain
from tests.properties import choices, model
from tests.properties.drafts import CHOSEN, CURRENT, KEYS, KIND, LANES, QUEUES, STREAM, WORKERS, JobDraft, number_of

T = TypeVar("T")
Deeds = list[tuple[Outcome, tuple[Any, ...]]]
RECENT = 6
TICK = 10
ENDS = (State.DONE, State.DEAD, State.CANCELLED)


class Ground(Protocol):
    """Where a store stands: opened empty for each example."""

    def open(self) -> tuple[TurnedClock, Sequence[Store]]:
        """A clock and the clients of an empty store."""

    def run(self, call: Awaitable[T]) -> T:
        """Await a call."""

    def close(self) -> None:
        """Let go of the clients."""


class Pair(RuleBasedStateMachine):
    """Answers are checked as they come, everything else by the invariant."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground
        self.clock, self.clients = ground.open()
        self.model = model.Model(self.clock.now())
        self.serial = self.steps = 0
        self.leases: list[Lease] = []  # all that were given to clients that live
        self.sent: list[Settlement] = []  # the last few
        self.asked: dict[bytes, ClaimRequest] = {}  # the last ask of each worker that was given leases
        self.workers: dict[bytes, tuple[bytes, int]] = {}  # who asked with which token, and when
        self.gone: list[bytes] = []  # ids of jobs that were there
        self.unnoticed = False  # jobs with a lane to ask had come due before the last call
        self.reported = 0  # offset of the last event of the lifecycle

    def teardown(self) -> None:
        self.ground.close()

    # From what was drawn to what is asked

    def fresh(self) -> int:
        self.serial += 1
        return self.serial

    def job(self, draft: JobDraft) -> NewJob:
        """A moment to be kept until the children have ended is nobody else's, lest two jobs come due at once."""
        serial, there = self.fresh(), list(self.model.jobs)
        wait = draft.delay + serial if draft.delay and draft.children else draft.delay
        return NewJob(
            task=draft.task, queue=draft.queue, priority=draft.priority, unique=draft.unique,
            payload=b"%d" % serial + b" " * (serial % 3 * 20),
            id=number_of(serial) if draft.chosen is None else [*CHOSEN, *self.gone[-2:], *CHOSEN][draft.chosen], delay=wait,
            at=self.clock.now() + draft.at if draft.at and not draft.children else 0,
            lane=draft.lane, lane_limit=LANES[draft.lane] if draft.lane else 1, children=draft.children,
            parent=there[-1 - draft.parent] if draft.parent is not None and draft.parent < len(there) else None,
        )  # fmt: skip

    def put(self, put: Put, place: int) -> Put:
        """Only the first of a call drops: whether a version rises over a drop in the same call is left open."""
        value = b"3" if put.value is None and place else put.value
        expect = self.model.version(put.kind, put.key) if put.expect == CURRENT else put.expect
        return replace(put, value=value, expect=expect, expires=put.expires and self.clock.now() + put.expires)

    def effect(self, drawn: JobDraft | Put | Publish, place: int) -> Effect:
        if isinstance(drawn, JobDraft):
            return Enqueue(self.job(drawn))
        return self.put(drawn, place) if isinstance(drawn, Put) else drawn

    def outcome(self, drawn: Outcome) -> Outcome:
        if isinstance(drawn, Wait) and drawn.on and drawn.on.after == CURRENT:
            return replace(drawn, on=replace(drawn.on, after=self.model.version(KIND, drawn.on.key)))
        return drawn

    def settlements(self, deeds: Deeds, leases: list[Lease]) -> list[Settlement]:
        return [
            Settlement(
                replace(lease, ref=0) if place else lease,  # a handle speeds things up and changes nothing
                self.outcome(outcome),
                tuple(self.effect(effect, place) for effect in effects),
            )
            for place, (lease, (outcome, effects)) in enumerate(zip(leases, deeds, strict=False))
        ]

    def ask(self, worker: bytes, shares: tuple[Share, ...], lease: int = 30 * SECOND) -> ClaimRequest:
        return ClaimRequest(worker, shares, lease, number_of(self.fresh(), 4))

    def ids(self, picks: list[int]) -> list[bytes]:
        known = [*reversed([*self.gone[-2:], *CHOSEN, *self.model.jobs]), bytes(16)]
        return [known[pick % len(known)] for pick in picks]

    def held(self, first: int) -> list[Lease]:
        """Some of the leases that are held, from one of them on; if there is none, a job is made for one."""
        if not self.known(stale=False):
            self.enqueue([self.job(JobDraft())])
            self.exchange([], self.ask(WORKERS[0], tuple(Share(queue, 3) for queue in QUEUES)))
        return self.some(first)

    def some(self, first: int, *, stale: bool = False) -> list[Lease]:
        """Up to three leases that are held, or that are not, from one of them on."""
        known = self.known(stale=stale)
        start = first % max(1, len(known))
        return (known[start:] + known[:start])[:3]

    def known(self, *, stale: bool) -> list[Lease]:
        return [lease for lease in self.leases if (self.model.leased(lease) is None) == stale][-20:]

    def doubtful(self, job: bytes) -> bool:
        """Whether an id that was pruned may be forgotten by now, but need not be."""
        return job in self.model.tombs and self.model.tombs[job][1] <= self.clock.now() + 10 * TICK

    # Calls that several rules make

    def call(self, verb: Callable[[Store], Awaitable[T]], *, lets_in: bool = False) -> T:
        """Make a call a moment later, by one client after the other.

        One that lets jobs in must keep them behind those of their lanes that came due, noticed or not.
        """
        self.clock.turn(TICK)
        self.model.now = self.clock.now()
        self.unnoticed = choices.come_due(self.model)
        if self.unnoticed and not lets_in:
            self.ground.run(self.come_due(self.clients[0]))
        answer = self.ground.run(verb(self.clients[self.fresh() % len(self.clients)]))
        if self.unnoticed and lets_in:
            self.ground.run(self.come_due(self.clients[0]))
        return answer

    async def come_due(self, store: Store) -> None:
        """An ask for nothing: a store may notice only when asked that a moment has come, but not ask lanes in its own order."""
        await store.queues.resume(QUEUES)
        shares = tuple(Share(queue, 0) for queue in QUEUES)
        answer = await store.jobs.exchange([], ClaimRequest(bytes(16), shares, token=number_of(self.fresh(), 4)))
        assert not answer.leases
        await store.queues.pause(sorted(self.model.paused))

    def enqueue(self, jobs: list[NewJob]) -> None:
        jobs = [job for job in jobs if not self.doubtful(job.id)]
        receipts = self.call(lambda store: store.jobs.enqueue(jobs), lets_in=True)
        assert receipts == [self.model.enqueue(job) for job in jobs]
        for receipt in receipts:
            if self.unnoticed and receipt.created and self.model.jobs[receipt.id].new_job.lane:
                self.model.jobs[receipt.id].fresh = False  # it may have come due behind the others of this call

    def exchange(self, settlements: list[Settlement], ask: ClaimRequest | None = None) -> None:
        settlements = [it for it in settlements if not any(map(self.doubtful, names(it)))]
        answer = self.call(lambda store: store.jobs.exchange(settlements, ask))
        self.sent = [*self.sent, *settlements][-RECENT:]
        assert list(answer.verdicts) == [self.model.settle(settlement) for settlement in settlements]
        assert answer.now == self.clock.now()
        if ask is None:
            assert (answer.leases, answer.more, answer.next_due) == ((), False, None)
            return
        choices.claim(self.model, ask, answer)
        self.workers.setdefault(ask.token, (ask.worker, self.clock.now()))
        if answer.leases:
            self.asked[ask.worker] = ask
        known = {(lease.id, lease.token) for lease in self.leases}
        for lease in answer.leases:
            self.check_lease(lease)
            if (lease.id, lease.token) not in known:
                self.leases.append(lease)

    def check_lease(self, lease: Lease) -> None:
        job = self.model.leased(lease)
        assert job is not None
        assert (lease.claimed, lease.until) == (job.since, job.until)
        assert (lease.attempt, lease.lost) == (job.attempt, job.lost)
        for field in ("task", "queue", "payload", "headers", "priority", "lane", "parent"):
            assert getattr(lease, field) == getattr(job.new_job, field), field

    def call_off(self, ids: list[bytes], keep: Retention) -> None:
        answers = self.call(lambda store: store.jobs.cancel(ids, keep=keep))
        assert answers == [self.model.cancel(self.model.jobs.get(job), keep) for job in ids]

    def run_again(self, ids: list[bytes]) -> None:
        answers = self.call(lambda store: store.jobs.replay(ids), lets_in=True)
        assert answers == self.model.replay(ids)

    def take_back(self, limit: int, max_lost: int, keep: Retention) -> None:
        lost = self.call(lambda store: store.jobs.reap(limit, max_lost=max_lost, keep=keep))
        choices.reap(self.model, [it.id for it in lost], limit, max_lost, keep)
        for it in lost:
            job = self.model.jobs[it.id]
            assert (it.attempt, it.lost, it.state) == (job.attempt, job.lost, job.state)

    # What holds after every rule

    def look(self, verb: Callable[[Store], Awaitable[T]]) -> T:
        """Look without letting time pass."""
        return self.ground.run(verb(self.clients[self.steps % len(self.clients)]))

    @invariant()
    def the_store_agrees(self) -> None:
        self.steps += 1
        self.model.now = self.clock.now()
        self.jobs_agree()
        self.counts_agree()
        if self.steps % 3 == 0:
            self.records_agree()
            self.streams_agree()
            self.totals_agree()
            self.ended_agree()
        if self.steps % 7 == 0:
            self.ground.run(check(self.clients[0]))
            paused = {queue.name for queue in self.look(lambda store: store.queues.stats()) if queue.paused}
            assert paused == self.model.paused

    def jobs_agree(self) -> None:
        ids = [*self.model.jobs, *self.gone[-5:]]
        for name, found in zip(ids, self.look(lambda store: store.jobs.get(ids)), strict=True):
            expected = self.model.jobs.get(name)
            assert (found is None) == (expected is None), "a job is there or not"
            if found and expected:
                self.job_agrees(found, expected)

    def job_agrees(self, found: StoredJob, expected: model.Job) -> None:
        assert self.state(found) == self.state(expected)
        for field in ("until", "reason", "attempt", "lost", "result", "delivered", "cancelling", "progress"):
            assert getattr(found, field) == getattr(expected, field), field
        assert found.since == expected.since or expected.reason is WaitReason.LANE
        for field in ("task", "queue", "payload", "priority", "lane", "parent"):
            assert getattr(found, field) == getattr(expected.new_job, field), field
        assert list(found.failures) == expected.failures
        assert found.children == expected.children or expected.reason is not WaitReason.CHILDREN

    def state(self, job: Any) -> State:
        """Scheduled and ready are the same once the moment has come."""
        return State.READY if job.state is State.SCHEDULED and job.since <= self.clock.now() else job.state

    def counts_agree(self) -> None:
        same = {State.SCHEDULED: State.READY}
        counted: Counter[tuple[str, State]] = Counter()
        for (queue, state), count in plain(self.look(lambda store: store.jobs.count())).items():
            counted[queue, same.get(state, state)] += count
        jobs = self.model.jobs.values()
        assert counted == Counter((job.new_job.queue, same.get(job.state, job.state)) for job in jobs)

    def totals_agree(self) -> None:
        stats = self.look(lambda store: store.queues.stats())
        assert {queue.name for queue in stats} == {
            job.new_job.queue for job in self.model.jobs.values()
        } | self.model.paused
        for queue in stats:
            assert queue.total_enqueued == self.model.total_enqueued[queue.name]
            for state in ENDS:
                assert queue.total_ended.get(state, 0) == self.model.total_ended[queue.name, state]

    def ended_agree(self) -> None:
        """Ended jobs are found newest first over all queues, page by page, with bodies and without."""
        state, limit, bodies = ENDS[self.steps // 3 % 3], (1, 2, 100)[self.steps // 9 % 3], self.steps % 2 == 0
        found = self.look(lambda store: all_found(store, Filter(state=state), limit, bodies=bodies))
        ids, moments = [job.id for job in found], [job.since for job in found]
        assert sorted(ids) == sorted(job.id for job in self.model.jobs.values() if job.state is state)
        assert moments == sorted(moments, reverse=True)
        assert found == self.look(lambda store: store.jobs.get(ids, bodies=bodies))

    def records_agree(self) -> None:
        there = [self.model.records[KIND, key] if self.model.version(KIND, key) else None for key in KEYS]
        assert self.look(lambda store: store.records.get(KIND, KEYS)) == there
        delivered = self.look(lambda store: store.records.find(DELIVERED, limit=1000)).items
        names = sorted(name for name in self.model.records if name[0] == DELIVERED)
        assert list(delivered) == [self.model.records[name] for name in names]

    def streams_agree(self) -> None:
        events, log = self.look(lambda store: store.streams.read(STREAM, limit=1000)), self.model.streams[STREAM]
        kept = [(n, it.data) for n, it in enumerate(log, 1) if n > self.model.trimmed[STREAM]]
        assert [(event.offset, event.data) for event in events] == kept
        bounds = self.look(lambda store: store.streams.bounds(STREAM))
        assert bounds == (self.model.trimmed[STREAM] + 1, len(log))
        events = self.look(lambda store: store.streams.read(LIFECYCLE, after=self.reported, limit=1000))
        assert [event.offset for event in events] == [self.reported + 1 + index for index in range(len(events))]
        assert all(unpack(event.data) for event in events), "nothing is reported where nothing happened"
        self.reported += len(events)


def names(settlement: Settlement) -> list[bytes]:
    """The ids that a settlement speaks of."""
    return [settlement.lease.id, *(effect.job.id for effect in settlement.effects if isinstance(effect, Enqueue))]


async def all_found(store: Store, wanted: Filter, limit: int, *, bodies: bool) -> list[StoredJob]:
    """What is found page by page."""
    page = await store.jobs.find(wanted, limit=limit, bodies=bodies)
    found = list(page.items)
    while page.cursor:
        page = await store.jobs.find(wanted, limit=limit, cursor=page.cursor, bodies=bodies)
        found += page.items
    return found
