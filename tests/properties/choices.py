"""Which jobs a verb picks: the rules where they are definite, and what a store may choose where they are not.

Between jobs that became ready at the very same moment only those from one enqueue have an order, that of arrival.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from packhorse.model.job import Retention, State
from packhorse.model.lease import ClaimRequest, Exchange
from packhorse.model.outcome import Again
from packhorse.model.reason import WaitReason
from tests.properties.drafts import QUEUES
from tests.properties.model import Job, Model


def standing(model: Model, state: State, *queues: str) -> list[Job]:
    """The jobs of these queues in a place, by their moment and arrival."""
    found = [job for job in model.jobs.values() if job.state is state and job.new_job.queue in queues]
    return sorted(found, key=lambda job: (job.since, job.number))


def come_due(model: Model) -> bool:
    """A scheduled job asks its lane when its moment has come; whether one did that has a lane to ask."""
    come = [job for job in standing(model, State.SCHEDULED, *QUEUES) if job.since <= model.now]
    asking = any(job.new_job.lane and not job.slot for job in come)
    for job in come:
        model.admit(job, job.since)
    return asking


def before(one: Job, other: Job) -> bool:
    """Whether a job must be leased first: by priority, then by moment, then by arrival in its queue."""
    mine, yours = (one.new_job.priority, one.since), (other.new_job.priority, other.since)
    lined_up = one.fresh and other.fresh and one.new_job.queue == other.new_job.queue
    return mine < yours or (mine == yours and lined_up and one.number < other.number)


def shares(model: Model, ask: ClaimRequest) -> dict[str, int]:
    """How many leases each queue gives: its share, then what the others leave, in the order asked."""
    ready = {share.queue: len(standing(model, State.READY, share.queue)) for share in ask.shares}
    ready |= dict.fromkeys(model.paused & ready.keys(), 0)
    count = {share.queue: min(share.count, ready[share.queue]) for share in ask.shares}
    for share in ask.shares:
        spare = ask.total - sum(count.values())
        most = ask.total if share.limit is None else share.limit
        count[share.queue] = min(ready[share.queue], most, count[share.queue] + spare)
    return count


def claim(model: Model, ask: ClaimRequest, answer: Exchange) -> None:
    """Lease what the store gave for an ask, if the rules allow it, and look at what it says of the rest."""
    given = [lease.id for lease in answer.leases]
    if again := [job for job in model.jobs.values() if job.token == ask.token]:
        give_back(model, ask, again, given)
    else:
        take_best(model, ask, given)
    queues = [share.queue for share in ask.shares]
    assert answer.more == bool(standing(model, State.READY, *set(queues) - model.paused)), "more"
    due = [job.since for job in standing(model, State.SCHEDULED, *queues)]
    # The same ask again moves nothing, so what has come due may not be distinguished from what will.
    assert answer.next_due == min(due, default=None) or (again and answer.more), "next due"


def size(jobs: Iterable[Job]) -> int:
    """How many bytes jobs count for in an ask."""
    return sum(len(job.new_job.payload) + len(job.new_job.headers) for job in jobs)


def give_back(model: Model, ask: ClaimRequest, held: list[Job], given: list[bytes]) -> None:
    """The same ask again gives the same leases, but makes those ready that do not fit in its bytes any more."""
    kept, left = [job for job in held if job.id in given], [job for job in held if job.id not in given]
    assert len(kept) == len(given) > 0, "the same ask again gives the same leases"
    assert size(kept) <= ask.max_bytes or len(kept) == 1, "leases fit in the bytes of their ask"
    assert not left or any(size([*kept, job]) > ask.max_bytes for job in left), "leases that fit are given again"
    for job in left:
        model.conclude(job, Again(charged=False))


def take_best(model: Model, ask: ClaimRequest, given: list[bytes]) -> None:
    """Lease what the store gave, if it is as many as the shares allow, the best of each queue, and best first."""
    taken = [model.jobs[job] for job in given]
    left = []
    for queue, count in shares(model, ask).items():
        mine = [job for job in taken if job.new_job.queue == queue]
        line = standing(model, State.READY, queue)
        assert set(mine) <= set(line), "only ready jobs are leased"
        behind = [job for job in line if job not in mine]
        full = any(size([*taken, job]) > ask.max_bytes and not any(before(it, job) for it in behind) for job in behind)
        assert len(mine) == count or (taken and full), f"{queue} gave {len(mine)} leases instead of {count}"
        left += behind
    assert size(taken) <= ask.max_bytes or len(taken) == 1, "leases fit in the bytes of their ask"
    for place, job in enumerate(taken):
        later = [*taken[place + 1 :], *(other for other in left if other.new_job.queue == job.new_job.queue)]
        assert not any(before(other, job) for other in later), "leases come best first"
    for job in taken:
        model.lease(job, ask)


def reap(model: Model, taken: list[bytes], limit: int, max_lost: int, keep: Retention) -> None:
    """Take back what the store took back, if those are leases that ran out, as many as the limit allows."""
    late = {job.id for job in model.jobs.values() if job.state is State.RUNNING and job.until <= model.now}
    assert len(taken) == min(limit, len(late)), f"{len(taken)} leases were taken back, {len(late)} are late"
    assert set(taken) <= late, "a lease that is not over stays"
    for job in taken:
        model.take_back(model.jobs[job], max_lost, keep)


def release(model: Model, reason: WaitReason, tasks: Collection[str], limit: int) -> int:
    """Let those go on who wait for this reason, the longest first."""
    waiting = [job for job in model.jobs.values() if job.reason is reason and job.new_job.task in tasks]
    released = sorted(waiting, key=lambda job: job.since)[:limit]
    for job in released:
        model.admit(job, model.now)
    return len(released)


def tied(model: Model, reason: WaitReason) -> bool:
    """Whether some who wait for this reason have waited equally long, so that a limit could not choose."""
    moments = [job.since for job in model.jobs.values() if job.reason is reason]
    return len(set(moments)) < len(moments)


def prune(model: Model, gone: list[bytes], limit: int) -> None:
    """Remove what the store removed, if it is the oldest of each shelf beyond its count or its age."""
    shelves = defaultdict(list)
    for job in model.jobs.values():
        if job.state.ended:
            shelves[job.new_job.queue, job.state, job.keep].append(job)
    surplus = 0
    for (_, _, keep), shelf in shelves.items():
        left = [job.since for job in shelf if job.id not in gone]
        over = max(len(shelf) - keep.count, sum(job.since + keep.age <= model.now for job in shelf))
        surplus += over
        assert len(shelf) - len(left) <= over, "the newest stay, up to their count and age"
        assert all(job.since <= moment for job in shelf if job.id in gone for moment in left), "oldest first"
    assert len(gone) == min(limit, surplus), f"{len(gone)} jobs went instead of {min(limit, surplus)}"
    for name in gone:
        model.prune(model.jobs[name])
