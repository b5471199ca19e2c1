"""Why a job is not running, in one sentence that ends with what to do."""

from collections.abc import Sequence

from packhorse.jobs.handle import last_words
from packhorse.jobs.job import Job
from packhorse.model.clock import moment
from packhorse.model.job import Failure, State
from packhorse.model.queue import QueueStats
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo


def explain(job: Job, queue: QueueStats | None, workers: Sequence[WorkerInfo], now: int) -> str:
    """What a job waits for, where it runs or how it ended."""
    stored = job.stored
    match stored.state:
        case State.SCHEDULED:
            return _scheduled(job, now)
        case State.READY:
            return _ready(job, queue, workers)
        case State.RUNNING:
            return _running(job, workers, now)
        case State.WAITING:
            return _waiting(job)
        case State.DONE:
            return f"It was done at {_moment(stored.since)}."
        case State.CANCELLED:
            words = f" ({why})" if (why := last_words(stored)) else ""
            return f"It was cancelled at {_moment(stored.since)}{words}: `packhorse jobs replay {job.id}` runs it after all."
        case State.DEAD:
            what = error(job.failures[-1]) if job.failures else stored.detail or "no error was noted"
            return f"It is dead as {stored.reason} ({what}): repair the cause, then `packhorse jobs replay {job.id}`."


def error(failure: Failure) -> str:
    """A failure in a line."""
    return f"{failure.type}: {failure.message}".rstrip(": ")


def _scheduled(job: Job, now: int) -> str:
    if job.stored.since <= now:
        return "Its moment has come: the next worker that asks its queue makes it ready."
    again = f"It failed {job.attempt} times and is tried again" if job.failures else "It is scheduled: it is due"
    return f"{again} in {length(job.stored.since - now)}, at {_moment(job.stored.since)}."


def _ready(job: Job, queue: QueueStats | None, workers: Sequence[WorkerInfo]) -> str:
    if queue is not None and queue.paused:
        return f"The queue {job.queue} is paused: `packhorse queues resume {job.queue}`."
    serving = [worker for worker in workers if job.queue in worker.queues]
    if not serving:
        return f"No worker that lives serves the queue {job.queue}: `packhorse worker -q {job.queue}`."
    ready = queue.counts.get(State.READY, 0) if queue is not None else 1
    return f"It waits for its turn: {ready} ready in the queue {job.queue}, {len(serving)} workers serve it."


def _running(job: Job, workers: Sequence[WorkerInfo], now: int) -> str:
    stored = job.stored
    ran = f"It has been running for {length(now - stored.since)}"
    until = f"its lease runs out at {_moment(stored.until or 0)}"
    if stored.cancelling:
        return f"{ran} and was asked to stop: it stops when its task lets it; {until}."
    names = [worker.name for worker in workers if worker.id == stored.worker]
    if not names:
        late = "it is taken back by any worker" if (stored.until or 0) <= now else f"it is taken back when {until}"
        return f"{ran}, and its worker is not alive any more: {late}."
    return f"{ran} on {names[0]}; {until} unless it is renewed."


def _waiting(job: Job) -> str:
    stored = job.stored
    match stored.reason:
        case WaitReason.CHILDREN:
            left = max(stored.children - stored.delivered, 0)
            return f"It waits for {left} of {stored.children} jobs before it."
        case WaitReason.LANE:
            return f"Another job of the key {stored.lane} is before it: `packhorse jobs ls --key {stored.lane}`."
        case WaitReason.UNROUTABLE:
            return f"No worker that looked at it knows the task {job.task}: start one that does, or correct the name."
        case WaitReason.INTERVENTION:
            return f"It waits for a person to look; then `packhorse jobs cancel {job.id}` or replay it.{_detail(job)}"
        case _:
            return f"It waits: {stored.reason}.{_detail(job)}"


def _detail(job: Job) -> str:
    return f" {job.detail}" if job.detail else ""


def length(micros: int) -> str:
    """A duration as people say it: the two largest parts of it."""
    seconds = max(micros, 0) // 1_000_000
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def _moment(micros: int) -> str:
    return moment(micros).strftime("%Y-%m-%d %H:%M:%S UTC")
