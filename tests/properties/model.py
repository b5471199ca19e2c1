"""The rules of a store in plain Python: an executable specification of what ``stores/contract.py`` promises.

A job is a record and its place; ``state`` names the place. Every verb is for one item and happens at ``now``, which
the caller turns. Which jobs a verb picks (the best, the late, the oldest) is given by ``choices.py``.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.ids import chosen
from packhorse.model.job import KEEP_DONE, LEASE_US, REMEMBER_US, NewJob, Receipt, Retention, State, Until
from packhorse.model.lease import ClaimRequest, Lease, Renewed, Settlement, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.record import DELIVERED, Record, delivery_key


class Job:
    """A new_job, written once, and what changes: its place, what belongs to the place, what it has gathered."""

    def __init__(self, new_job: NewJob, number: int, due: int) -> None:
        self.new_job, self.id, self.lane = new_job, new_job.id, (new_job.queue, new_job.lane)
        self.number, self.due, self.children = number, due, new_job.children
        self.state: Any = None
        self.since, self.reason, self.on = 0, None, None
        self.until: Any = None  # of a running job: when its lease runs out
        self.token, self.step, self.cancelling = None, 0, False
        self.slot = False
        self.fresh = False  # it stands where enqueue put it, so arrival decides between equals
        self.attempt = self.lost = self.delivered = 0
        self.keep, self.result = KEEP_DONE, None
        self.progress: bytes | None = None
        self.settled: list[bytes | None] = []  # the tokens that settled it; None for an end without one
        self.failures: list[Any] = []


def promotable(job: Job) -> bool:
    """Whether only a moment to come or a person holds the job back."""
    return job.state is State.SCHEDULED or job.reason is WaitReason.INTERVENTION


class Model:
    """All that a store knows, and its verbs."""

    def __init__(self, now: int) -> None:
        self.now, self.born = now, 0
        self.jobs: dict[bytes, Job] = {}
        self.tombs: dict[bytes, tuple[bytes | None, int]] = {}  # id: last token, when it may be forgotten
        self.uniques: dict[str, tuple[bytes, int | None]] = {}  # key: holder, end of its window
        self.held: Counter[Any] = Counter()  # lane: slots taken
        self.lines: defaultdict[Any, list[Job]] = defaultdict(list)  # lane: who waits behind it
        self.records: dict[tuple[str, str], Record] = {}
        self.streams: defaultdict[str, list[Publish]] = defaultdict(list)
        self.trimmed: Counter[str] = Counter()  # events that a stream no longer keeps
        self.paused: set[str] = set()
        self.total_enqueued: Counter[str] = Counter()
        self.total_ended: Counter[tuple[str, State]] = Counter()

    def place(self, job: Job, state: State, since: int, reason: Any = None, **more: Any) -> None:
        """The only way from one place to the next."""
        if job in self.lines[job.lane]:
            self.lines[job.lane].remove(job)
        job.fresh = job.state is None or (job.fresh and job.state is State.SCHEDULED)
        job.state, job.since, job.until, job.reason, job.on = state, since, None, reason, None
        job.token, job.step, job.cancelling = None, 0, False
        vars(job).update(more)

    def admit(self, job: Job, moment: int) -> None:
        """Nothing else holds the job back: it is scheduled, ready, or behind its lane."""
        asks = job.new_job.lane is not None and not job.slot
        if moment > self.now:
            self.place(job, State.SCHEDULED, moment)
        elif asks and (self.lines[job.lane] or self.held[job.lane] >= job.new_job.lane_limit):
            self.place(job, State.WAITING, self.now, WaitReason.LANE)
            self.lines[job.lane].append(job)
        else:
            self.held[job.lane] += asks
            self.place(job, State.READY, moment, slot=job.slot or asks)

    def end(self, job: Job, state: State, keep: Retention, **more: Any) -> None:
        """However a job ends, it ends like this."""
        job.settled.append(job.token)
        self.total_ended[job.new_job.queue, state] += 1
        self.place(job, state, self.now, keep=keep, **more)
        self.depart(job, state.value)

    def depart(self, job: Job, word: str) -> None:
        """What goes with every end: the unique key is free, the slot goes to the next, the parent is notified."""
        self.free(job)
        self.hand_on(job)
        parent = self.jobs.get(job.new_job.parent or b"")
        if parent is None:
            return
        key = delivery_key(parent.id, job.id)
        parent.delivered += (DELIVERED, key) not in self.records
        value = word.encode() if job.result is None else word.encode() + b" " + job.result
        self.write(Put(DELIVERED, key, value))
        if parent.reason is WaitReason.CHILDREN and parent.delivered >= parent.children:
            self.admit(parent, self.now if any(parent.settled) else max(parent.due, self.now))

    def hand_on(self, job: Job) -> None:
        """The slot, if the job has one, goes to the next behind its lane."""
        if job.slot:
            job.slot, line = False, self.lines[job.lane]
            self.held[job.lane] -= not line
            for following in line[:1]:
                self.place(following, State.READY, self.now, slot=True)

    def holder(self, key: str) -> bytes | None:
        job, until = self.uniques.get(key, (None, None))
        return job if until is None or until > self.now else None

    def free(self, job: Job) -> None:
        """A window outlives its job, any other hold of the key does not."""
        if job.new_job.unique and self.uniques.get(job.new_job.unique.key) == (job.id, None):
            del self.uniques[job.new_job.unique.key]

    def version(self, kind: str, key: str) -> int:
        found = self.records.get((kind, key))
        return found.version if found and (not found.expires or found.expires > self.now) else 0

    def expected(self, put: Put) -> bool:
        return put.expect is None or put.expect == self.version(put.kind, put.key)

    def write(self, put: Put) -> int:
        """Write whatever was expected, and let those go on who wait for it; the new version, 0 if dropped."""
        name, version = (put.kind, put.key), max(self.version(put.kind, put.key) + 1, self.now)
        self.records.pop(name, None)
        if put.value is None:
            return 0
        self.records[name] = Record(*name, put.value, version, put.due, put.expires)
        for job in self.jobs.values():
            if job.on and (job.on.kind, job.on.key) == name and job.on.after < version:
                self.admit(job, self.now)
        return version

    def enqueue(self, new_job: NewJob) -> Receipt:
        if new_job.id in self.jobs or new_job.id in self.tombs:
            return Receipt(new_job.id, False)
        if new_job.unique and (holder := self.holder(new_job.unique.key)):
            return Receipt(holder, False)
        self.born += 1
        self.total_enqueued[new_job.queue] += 1
        job = self.jobs[new_job.id] = Job(new_job, self.born, max(new_job.at, self.now + new_job.delay))
        if new_job.unique:
            window = self.now + new_job.unique.window if new_job.unique.until is Until.WINDOW else None
            self.uniques[new_job.unique.key] = (new_job.id, window)
        if new_job.children:
            self.place(job, State.WAITING, self.now, WaitReason.CHILDREN)
        else:
            self.admit(job, job.due)
        return Receipt(new_job.id, True)

    def leased(self, lease: Lease) -> Job | None:
        """The job, if it is leased with just this token."""
        job = self.jobs.get(lease.id)
        return job if job and job.token == lease.token else None

    def settle(self, settlement: Settlement) -> Verdict:
        lease, outcome, job = settlement.lease, settlement.outcome, self.leased(settlement.lease)
        if job is None:
            there = self.jobs.get(lease.id)
            known = there.settled if there else self.tombs.get(lease.id, ())[:1]
            return Verdict.REPEATED if lease.token in known else Verdict.LOST
        if isinstance(outcome, Held) and outcome.step <= job.step:
            return Verdict.REPEATED
        if not all(self.expected(effect) for effect in settlement.effects if isinstance(effect, Put)):
            return Verdict.CONFLICT
        waits = isinstance(outcome, Wait) and not job.cancelling
        stops = isinstance(outcome, Again | Wait) and job.cancelling
        if not waits:  # an effect may take the unique key of a job that ends
            self.conclude(job, outcome)
        for effect in () if stops else settlement.effects:
            if isinstance(effect, Enqueue):
                self.enqueue(effect.job)
            elif isinstance(effect, Publish):
                self.streams[effect.stream].append(effect)
            else:
                self.write(effect)
        if waits:  # what it waits for may be among the effects
            self.conclude(job, outcome)
        return Verdict.WRITTEN

    def conclude(self, job: Job, outcome: Outcome) -> None:
        if error := getattr(outcome, "error", None):
            job.failures = [*job.failures, replace(error, attempt=job.attempt, at=self.now)][-10:]
        match outcome:
            case Held(step):
                job.step = step
            case Done(result, keep):
                self.end(job, State.DONE, keep, result=result)
            case Dead(reason, _, keep):
                self.end(job, State.DEAD, keep, reason=reason)
            case Cancelled(keep):
                self.end(job, State.CANCELLED, keep)
            case _ if job.cancelling:
                self.end(job, State.CANCELLED, KEEP_DONE)
            case Again(delay, _, charged):
                job.settled.append(job.token)
                job.attempt -= not charged
                self.admit(job, self.now + delay)
            case Wait(reason, on, children):
                job.settled.append(job.token)
                job.attempt -= 1
                if (on and self.version(on.kind, on.key) > on.after) or 0 < children <= job.delivered:
                    self.admit(job, self.now)
                else:
                    self.place(job, State.WAITING, self.now, reason, on=on, children=children)
                    if reason is WaitReason.CHILDREN:
                        self.hand_on(job)

    def lease(self, job: Job, ask: ClaimRequest) -> None:
        job.attempt += 1
        if job.new_job.unique and job.new_job.unique.until is Until.STARTED:
            self.free(job)
        self.place(job, State.RUNNING, self.now, token=ask.token, until=self.now + ask.lease)

    def renew(self, lease: Lease, duration: int) -> Renewed:
        if job := self.leased(lease):
            job.until = self.now + duration
            return Renewed.CANCELLING if job.cancelling else Renewed.KEPT
        return Renewed.LOST

    def note(self, lease: Lease, progress: bytes) -> Verdict:
        if job := self.leased(lease):
            job.progress = progress
        return Verdict.WRITTEN if job else Verdict.LOST

    def take_back(self, job: Job, max_lost: int, keep: Retention) -> None:
        begun, job.token = job.step > 0, None
        if begun or not job.lost:
            job.lost += 1
        else:
            job.attempt -= 1
        if job.cancelling:
            self.end(job, State.CANCELLED, KEEP_DONE)
        elif begun and job.lost >= max_lost:
            self.end(job, State.DEAD, keep, reason=DeadReason.POISON)
        else:
            self.admit(job, self.now)

    def cancel(self, job: Job | None, keep: Retention) -> State | None:
        if job and job.state is State.RUNNING:
            job.cancelling = True
        elif job and not job.state.ended:
            self.end(job, State.CANCELLED, keep)
        return job.state if job else None

    def replay(self, names: Sequence[bytes]) -> list[bool]:
        taken: list[Job] = []
        answers = [self.take_out(self.jobs.get(name), taken) for name in names]
        for job in taken:
            job.attempt, job.lost, job.children = 0, 0, job.new_job.children
            if job.children > job.delivered:
                self.place(job, State.WAITING, self.now, WaitReason.CHILDREN)
            else:
                self.admit(job, self.now)
        return answers

    def take_out(self, job: Job | None, taken: list[Job]) -> bool:
        """A job leaves its end, and takes back what it left for its parent."""
        if job is None or job in taken or job.state not in (State.DEAD, State.CANCELLED):
            return False
        if job.new_job.unique and job.new_job.unique.until is not Until.WINDOW:
            if self.holder(job.new_job.unique.key):
                return False
            self.uniques[job.new_job.unique.key] = (job.id, None)
        parent = self.jobs.get(job.new_job.parent or b"")
        if parent and self.records.pop((DELIVERED, delivery_key(parent.id, job.id)), None):
            parent.delivered -= 1
        taken.append(job)
        return True

    def promote(self, job: Job | None) -> bool:
        if job is None or not promotable(job):
            return False
        self.admit(job, self.now)
        job.fresh = False
        return True

    def drop(self, name: bytes) -> bool:
        self.tombs.pop(name, None)
        if (job := self.jobs.get(name)) and not job.state.ended:
            self.place(job, State.CANCELLED, self.now)
            self.depart(job, "dropped")
        return job is not None and self.erase(job)

    def prune(self, job: Job) -> None:
        self.tombs[job.id] = (job.settled[-1], self.now + (REMEMBER_US if chosen(job.id) else 10 * LEASE_US))
        self.erase(job)

    def erase(self, job: Job) -> bool:
        delivered = [name for name in self.records if name[0] == DELIVERED and name[1].startswith(job.id.hex())]
        for name in delivered:
            del self.records[name]
        return self.jobs.pop(job.id) is job
