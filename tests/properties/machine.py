"""The machine: whatever may happen to a store, in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from msgspec.structs import replace

from packhorse.model.effect import Publish, Put
from packhorse.model.job import KEEP_DEAD, KEEP_DONE, LEASE_US, Retention, State
from packhorse.model.lease import Settlement, Share
from packhorse.model.limits import SECOND
from packhorse.model.outcome import Held
from packhorse.model.reason import WaitReason
from tests.properties import choices
from tests.properties.drafts import (
    DEEDS,
    JOB_DRAFTS,
    KEEPS,
    KEYS,
    KIND,
    PARKED,
    PUTS,
    QUEUES,
    SHARES,
    STREAM,
    TASKS,
    WORKERS,
    JobDraft,
)
from tests.properties.model import promotable
from tests.properties.pair import RECENT, Deeds, Pair

PICKS = st.lists(st.integers(0, 7), min_size=1, max_size=3)
FIRST = st.integers(0, 3)
LIMITS = st.sampled_from((1000, 1, 2))
SMALL = st.sampled_from((SECOND, 6 * SECOND, 16 * SECOND, 31 * SECOND))
BYTES = st.sampled_from((50, 1, 100))
LARGE = st.sampled_from((11 * 60 * SECOND, 25 * 3600 * SECOND, 8 * 24 * 3600 * SECOND))


class Machine(Pair):
    """Each rule makes a call on the store and on the model, and compares their answers."""

    # Enqueue

    @initialize(drafts=st.lists(JOB_DRAFTS, max_size=4))
    def enqueue_the_first(self, drafts: list[JobDraft]) -> None:
        self.enqueue([self.job(draft) for draft in drafts])

    @rule(drafts=st.lists(JOB_DRAFTS, min_size=1, max_size=4))
    def enqueue_some(self, drafts: list[JobDraft]) -> None:
        self.enqueue([self.job(draft) for draft in drafts])

    @rule(draft=JOB_DRAFTS)
    def enqueue_the_same_twice_in_one_call(self, draft: JobDraft) -> None:
        self.enqueue([self.job(draft)] * 2)

    @rule(drafts=st.lists(JOB_DRAFTS, min_size=1, max_size=2))
    def enqueue_again_after_a_lost_answer(self, drafts: list[JobDraft]) -> None:
        jobs = [self.job(draft) for draft in drafts]
        self.enqueue(jobs)
        self.enqueue(jobs)

    # Exchange

    @rule(worker=st.sampled_from(WORKERS), lease=st.sampled_from((30 * SECOND, 5 * SECOND)))
    def claim_all(self, worker: bytes, lease: int) -> None:
        self.exchange([], self.ask(worker, tuple(Share(queue, 10) for queue in QUEUES), lease))

    @rule(worker=st.sampled_from(WORKERS), shares=SHARES)
    def claim(self, worker: bytes, shares: tuple[Share, ...]) -> None:
        self.exchange([], self.ask(worker, shares))

    @rule(worker=st.sampled_from(WORKERS), shares=SHARES)
    def claim_again_after_a_lost_answer(self, worker: bytes, shares: tuple[Share, ...]) -> None:
        ask = self.ask(worker, shares)
        self.exchange([], ask)
        self.exchange([], ask)

    @rule(worker=st.sampled_from(WORKERS), queue=st.sampled_from(QUEUES), max_bytes=BYTES)
    def claim_few_bytes(self, worker: bytes, queue: str, max_bytes: int) -> None:
        self.exchange([], replace(self.ask(worker, (Share(queue, 10),)), max_bytes=max_bytes))

    @rule(worker=st.sampled_from(WORKERS), shares=SHARES, max_bytes=BYTES)
    def claim_again_for_fewer_bytes(self, worker: bytes, shares: tuple[Share, ...], max_bytes: int) -> None:
        ask = self.ask(worker, shares)
        self.exchange([], ask)
        self.exchange([], replace(ask, max_bytes=max_bytes))

    @precondition(lambda self: self.asked)
    @rule(pick=FIRST)
    def repeat_the_last_ask(self, pick: int) -> None:
        """A client does so soon or never: after ten leases a store may have forgotten the ask."""
        held = {job.token for job in self.model.jobs.values()}
        lately = self.clock.now() - 9 * LEASE_US
        asks = [ask for ask in self.asked.values() if ask.token in held and self.workers[ask.token][1] > lately]
        if asks:
            self.exchange([], asks[pick % len(asks)])

    @rule(deeds=DEEDS, first=FIRST)
    def settle(self, deeds: Deeds, first: int) -> None:
        self.exchange(self.settlements(deeds, self.held(first)))

    @rule(deeds=DEEDS, first=FIRST, worker=st.sampled_from(WORKERS), shares=SHARES)
    def settle_and_claim(self, deeds: Deeds, first: int, worker: bytes, shares: tuple[Share, ...]) -> None:
        self.exchange(self.settlements(deeds, self.held(first)), self.ask(worker, shares))

    @rule(deeds=DEEDS, first=FIRST)
    def settle_again_after_a_lost_answer(self, deeds: Deeds, first: int) -> None:
        settlements = self.settlements(deeds, self.held(first))
        self.exchange(settlements)
        self.exchange(settlements)

    @rule(deeds=DEEDS, first=FIRST, worker=st.sampled_from(WORKERS), shares=SHARES)
    def settle_and_claim_again_after_a_lost_answer(
        self, deeds: Deeds, first: int, worker: bytes, shares: tuple[Share, ...]
    ) -> None:
        settlements, ask = self.settlements(deeds, self.held(first)), self.ask(worker, shares)
        self.exchange(settlements, ask)
        self.exchange(settlements, ask)

    @rule(deeds=DEEDS, first=FIRST)
    def settle_one_lease_often_in_one_call(self, deeds: Deeds, first: int) -> None:
        self.exchange(self.settlements(deeds, self.held(first)[:1] * 3))

    @precondition(lambda self: self.sent)
    @rule(pick=st.integers(0, RECENT - 1))
    def repeat_an_old_settlement(self, pick: int) -> None:
        self.exchange([self.sent[-1 - pick % len(self.sent)]])

    @precondition(lambda self: self.leases)
    @rule(deeds=DEEDS, first=FIRST)
    def settle_with_a_stale_token(self, deeds: Deeds, first: int) -> None:
        self.exchange(self.settlements(deeds, self.some(first, stale=True)))

    @rule(deeds=DEEDS, first=FIRST, max_lost=st.sampled_from((3, 1)))
    def settle_too_late(self, deeds: Deeds, first: int, max_lost: int) -> None:
        leases = self.held(first)
        self.clock.turn(31 * SECOND)
        self.take_back(1000, max_lost, KEEP_DEAD)
        self.exchange(self.settlements(deeds, leases))

    @rule(deeds=DEEDS, first=FIRST)
    def settle_what_is_to_be_cancelled(self, deeds: Deeds, first: int) -> None:
        leases = self.held(first)
        self.call_off([lease.id for lease in leases], KEEP_DONE)
        self.exchange(self.settlements(deeds, leases))

    # Leases

    @precondition(lambda self: self.leases)
    @rule(first=FIRST, stale=st.booleans(), duration=st.sampled_from((30 * SECOND, SECOND)))
    def renew(self, first: int, stale: bool, duration: int) -> None:
        leases = self.some(first, stale=stale)
        answers = self.call(lambda store: store.jobs.renew(leases, duration))
        assert answers == [self.model.renew(lease, duration) for lease in leases]

    @precondition(lambda self: self.leases)
    @rule(first=FIRST, stale=st.booleans())
    def note(self, first: int, stale: bool) -> None:
        notes = [(lease, b"%d" % self.fresh()) for lease in self.some(first, stale=stale)]
        answers = self.call(lambda store: store.jobs.note(notes))
        assert answers == [self.model.note(*note) for note in notes]

    @precondition(lambda self: any(job.token for job in self.model.jobs.values()))
    @rule(limit=LIMITS, max_lost=st.sampled_from((3, 1)), keep=KEEPS, wait=st.booleans())
    def reap(self, limit: int, max_lost: int, keep: Retention, wait: bool) -> None:
        self.clock.turn(31 * SECOND if wait else 0)
        self.take_back(limit, max_lost, keep)

    @rule(worker=st.sampled_from(WORKERS), begun=st.booleans(), max_lost=st.sampled_from((3, 2)))
    def a_worker_is_lost(self, worker: bytes, begun: bool, max_lost: int) -> None:
        """With all it has taken, and the first of it begun or not."""
        self.exchange([], self.ask(worker, tuple(Share(queue, 10) for queue in QUEUES)))
        if begun:
            self.exchange([Settlement(lease, Held(self.fresh())) for lease in self.held(0)[:1]])
        self.clock.turn(31 * SECOND)
        self.take_back(1000, max_lost, KEEP_DEAD)

    @precondition(lambda self: self.leases)
    @rule(worker=st.sampled_from(WORKERS))
    def a_client_crashes(self, worker: bytes) -> None:
        """It will not be known of again; its leases run out in their time."""
        self.leases = [lease for lease in self.leases if self.workers[lease.token][0] != worker]
        self.asked.pop(worker, None)

    # What people do to jobs

    @precondition(lambda self: self.model.jobs)
    @rule(picks=PICKS, keep=KEEPS)
    def cancel(self, picks: list[int], keep: Retention) -> None:
        self.call_off(self.ids(picks), keep)

    @precondition(lambda self: any(job.state.ended for job in self.model.jobs.values()))
    @rule(picks=PICKS)
    def replay(self, picks: list[int]) -> None:
        self.run_again(self.ids(picks))

    @rule(size=st.integers(1, 2), picks=PICKS)
    def replay_some_of_a_cancelled_family(self, size: int, picks: list[int]) -> None:
        parent = self.job(JobDraft(children=size))
        self.enqueue([parent])
        children = [self.job(JobDraft(parent=0)) for _ in range(size)]
        self.enqueue(children)
        family = [job.id for job in (parent, *children)]
        self.call_off(family, KEEP_DONE)
        self.run_again([family[pick % len(family)] for pick in picks])

    @precondition(lambda self: any(map(promotable, self.model.jobs.values())))
    @rule(picks=PICKS)
    def promote(self, picks: list[int]) -> None:
        ids = self.ids(picks)
        answers = self.call(lambda store: store.jobs.promote(ids), lets_in=True)
        assert answers == [self.model.promote(self.model.jobs.get(job)) for job in ids]

    @precondition(lambda self: self.model.jobs)
    @rule(picks=PICKS)
    def drop(self, picks: list[int]) -> None:
        ids = self.ids(picks)
        answers = self.call(lambda store: store.jobs.drop(ids))
        assert answers == [self.model.drop(job) for job in ids]
        self.gone += ids

    @precondition(lambda self: any(job.state is State.WAITING for job in self.model.jobs.values()))
    @rule(reason=st.sampled_from((*PARKED, WaitReason.SIGNAL)), tasks=st.sampled_from((None, TASKS, TASKS[:1])))
    def release(self, reason: WaitReason, tasks: tuple[str, ...] | None) -> None:
        limit = 500 if choices.tied(self.model, reason) else 1
        answer = self.call(lambda store: store.jobs.release(reason, tasks=tasks, limit=limit))
        assert answer == choices.release(self.model, reason, tasks or TASKS, limit)

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        if queue in self.model.paused:
            self.call(lambda store: store.queues.resume([queue]))
        else:
            self.call(lambda store: store.queues.pause([queue]))
        self.model.paused ^= {queue}

    # Time, upkeep, records, streams

    @rule(duration=SMALL)
    def some_time_passes(self, duration: int) -> None:
        self.clock.turn(duration)

    @rule(duration=LARGE)
    def much_time_passes(self, duration: int) -> None:
        self.clock.turn(duration)

    @precondition(lambda self: any(job.state.ended for job in self.model.jobs.values()))
    @rule(limit=LIMITS)
    def prune(self, limit: int) -> None:
        ended = [job.id for job in self.model.jobs.values() if job.state.ended]
        answer = self.call(lambda store: store.jobs.prune(limit))
        found = self.look(lambda store: store.jobs.get(ended))
        gone = [job for job, there in zip(ended, found, strict=True) if there is None]
        assert answer.jobs == len(gone)
        dead = [self.model.jobs[job] for job in gone if self.model.jobs[job].state is State.DEAD]
        assert answer.dead == {
            queue: (len(died), max(died))
            for queue in QUEUES
            if (died := [job.since for job in dead if job.new_job.queue == queue])
        }
        choices.prune(self.model, gone, limit)
        if limit == 1000:
            self.model.tombs = {job: tomb for job, tomb in self.model.tombs.items() if tomb[1] > self.model.now}
        self.gone += gone

    @rule(puts=st.lists(PUTS, min_size=1, max_size=3))
    def put_records(self, puts: list[Put]) -> None:
        puts = [self.put(put, place) for place, put in enumerate(puts)]
        answers = self.call(lambda store: store.records.put(puts))
        assert answers == [self.model.write(put) if self.model.expected(put) else None for put in puts]

    @precondition(lambda self: self.model.records)
    @rule(keys=st.sampled_from((KEYS, KEYS[:1], (*KEYS, "other"))))
    def drop_records(self, keys: tuple[str, ...]) -> None:
        answer = self.call(lambda store: store.records.drop(KIND, keys))
        there = [key for key in keys if self.model.version(KIND, key)]
        assert answer == len(there)
        for key in there:
            self.model.write(Put(KIND, key, None))

    @rule(data=st.lists(st.sampled_from((b"1", b"2")), min_size=1, max_size=2), below=st.integers(0, 6))
    def publish_and_trim(self, data: list[bytes], below: int) -> None:
        events, log = [Publish(STREAM, it) for it in data], self.model.streams[STREAM]
        answers = self.call(lambda store: store.streams.publish(events))
        assert answers == [len(log) + 1 + index for index in range(len(events))]
        log += events
        trimmed, limit = self.model.trimmed[STREAM], 2
        removed = self.call(lambda store: store.streams.trim(STREAM, trimmed + below, limit))
        assert removed == min(max(0, below - 1), len(log) - trimmed, limit)
        self.model.trimmed[STREAM] += removed
