"""What rules about queues find in one look at the store."""

from collections.abc import Sequence

import msgspec

from packhorse.alerts.alert import MAX_JOB_IDS, AlertFinding
from packhorse.alerts.rules import RuleKind, RuleSpec
from packhorse.alerts.silences import Silence, silences_now
from packhorse.model import limits
from packhorse.model.ids import id_text
from packhorse.model.job import State
from packhorse.model.page import Filter
from packhorse.model.queue import QueueStats
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store

STUCK_REASONS = frozenset({WaitReason.CHILDREN, WaitReason.SIGNAL, WaitReason.INTERVENTION})


class Look(msgspec.Struct, frozen=True):
    """What all rules that are evaluated together see."""

    store: Store
    now: int
    queues: Sequence[QueueStats]
    workers: Sequence[WorkerInfo]
    silences: Sequence[Silence]

    def served(self, queue: str) -> bool:
        """Whether a living worker serves a queue."""
        return any(queue in worker.queues for worker in self.workers)

    def without_worker(self) -> list[QueueStats]:
        """The queues that have jobs to run now, and no worker."""
        return [
            queue
            for queue in self.queues
            if not queue.name.startswith(limits.RESERVED)
            and not queue.paused
            and (queue.counts.get(State.READY, 0) or (queue.next_due is not None and queue.next_due <= self.now))
            and not self.served(queue.name)
        ]


async def take_look(store: Store) -> Look:
    """Look at the store once."""
    queues, workers, silences = await store.queues.stats(), await store.fleet.workers(), await silences_now(store)
    return Look(store, await store.ping(), queues, workers, silences)


async def queue_findings(spec: RuleSpec, look: Look) -> dict[str, AlertFinding]:
    """Give what a rule finds, by queue."""
    kind = RuleKind(spec.kind)
    if kind is RuleKind.NO_WORKER:
        without = [(queue.name, queue.counts.get(State.READY, 0)) for queue in look.without_worker()]
        return {name: AlertFinding(queue=name, count=ready) for name, ready in without if spec.queue in (None, name)}
    found: dict[str, AlertFinding] = {}
    for queue in look.queues:
        if queue.name.startswith(limits.RESERVED) or spec.queue not in (None, queue.name):
            continue
        finding = await _stuck(spec, queue, look) if kind is RuleKind.STUCK else _counted(kind, spec, queue, look.now)
        if finding is not None:
            found[queue.name] = finding
    return found


def _counted(kind: RuleKind, spec: RuleSpec, queue: QueueStats, now: int) -> AlertFinding | None:
    if kind is RuleKind.OLDEST:
        age = 0 if queue.oldest_ready is None else now - queue.oldest_ready
        return AlertFinding(queue=queue.name, value=age) if age > spec.above else None
    count = queue.counts.get(State.READY if kind is RuleKind.BACKLOG else State.DEAD, 0)
    return AlertFinding(queue=queue.name, count=count) if count > spec.above else None


async def _stuck(spec: RuleSpec, queue: QueueStats, look: Look) -> AlertFinding | None:
    """Look at the jobs that wait longest; what waits for its lane or for a worker is the business of other rules."""
    if not queue.counts.get(State.WAITING, 0):
        return None
    waiting = await look.store.jobs.find(
        Filter(queue=queue.name, state=State.WAITING), limit=limits.ITEMS, bodies=False
    )
    stuck = [job for job in waiting.items if job.reason in STUCK_REASONS and look.now - job.since > spec.above]
    ids = tuple(id_text(job.id) for job in stuck[:MAX_JOB_IDS])
    return AlertFinding(queue=queue.name, count=len(stuck), job_ids=ids) if stuck else None
