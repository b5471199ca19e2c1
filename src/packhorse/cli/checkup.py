"""What can be said of an app and its work: layout, workers, queues, tasks. Each line comes with a fix."""

import platform
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import version

from packhorse.app import App
from packhorse.model.finding import Finding, Grade
from packhorse.model.job import State
from packhorse.model.layout import Standing, Step
from packhorse.model.page import Filter
from packhorse.model.queue import QueueStats
from packhorse.model.reason import WaitReason
from packhorse.model.worker import Worker
from packhorse.stores.contract import Store

MANY = 10_000  # no more waiting jobs than these are looked at
SHOWN = 5


def release() -> Finding:
    """What runs here."""
    return Finding("Packhorse", f"{version('packhorse')} on Python {platform.python_version()}")


def layout(steps: Sequence[Step]) -> Finding:
    """Whether the layout is this release's."""
    by: dict[Standing, list[str]] = {}
    for step in steps:
        by.setdefault(step.standing, []).append(step.name)
    if unknown := by.get(Standing.UNKNOWN):
        return Finding("layout", f"has {_some(unknown)}, of a newer release", Grade.BAD, "upgrade Packhorse here")
    if changed := by.get(Standing.CHANGED):
        advice = "install the release that made this layout"
        return Finding("layout", f"{_some(changed)} changed after it was taken", Grade.BAD, advice)
    if pending := by.get(Standing.PENDING):
        return Finding("layout", f"{_steps(pending)} to be taken", Grade.BAD, "packhorse migrate up")
    return Finding("layout", f"up to date, {_steps(steps)}")


async def work(store: Store) -> AsyncIterator[Finding]:
    """Workers, queues and jobs of an open store."""
    workers, queues = await store.fleet.workers(), await store.queues.stats()
    for finding in (*_workers(workers, queues), *_queues(queues, workers)):
        yield finding
    if sum(queue.counts.get(State.WAITING, 0) for queue in queues):
        strangers = await _unroutable(store)
        if strangers:
            advice = "start a worker that knows these tasks, or enqueue them under the name they have"
            yield Finding("unroutable jobs", _counted(strangers), Grade.WARN, advice)
    if dead := sum(queue.counts.get(State.DEAD, 0) for queue in queues):
        yield Finding("dead letters", f"{dead:,}", Grade.NOTE, "packhorse dead ls --by error")


def _workers(workers: Sequence[Worker], queues: Sequence[QueueStats]) -> Iterator[Finding]:
    if workers:
        slots = sum(worker.slots for worker in workers)
        yield Finding("workers", f"{len(workers)} alive, {slots} slots")
    else:
        ready = sum(queue.counts.get(State.READY, 0) for queue in queues)
        grade = Grade.WARN if ready else Grade.NOTE
        yield Finding("workers", "none alive", grade, "packhorse worker")
    releases = sorted({worker.release for worker in workers if worker.release})
    if len(releases) > 1:
        yield Finding("releases", ", ".join(releases), Grade.NOTE, "finish the rollout, or stop the old workers")


def _queues(queues: Sequence[QueueStats], workers: Sequence[Worker]) -> Iterator[Finding]:
    served = {name for worker in workers for name in worker.queues}
    filled = [queue for queue in queues if any(queue.counts.get(state, 0) for state in (State.READY, State.SCHEDULED))]
    if workers and (alone := [queue.name for queue in filled if queue.name not in served]):
        advice = shlex.join(["packhorse", "worker", "-q", ",".join(alone)])
        yield Finding("queues without a worker", _some(alone), Grade.WARN, advice)
    if paused := [queue.name for queue in queues if queue.paused]:
        yield Finding(
            "paused queues", _some(paused), Grade.NOTE, shlex.join(["packhorse", "queues", "resume", *paused])
        )


async def _unroutable(store: Store) -> Counter[str]:
    """How many jobs of which tasks no worker knows what to do with."""
    counted: Counter[str] = Counter()
    wanted, cursor = Filter(state=State.WAITING, reason=WaitReason.UNROUTABLE), None
    while counted.total() < MANY:
        page = await store.jobs.find(wanted, limit=500, cursor=cursor)
        counted.update(job.task for job in page.items)
        cursor = page.cursor
        if cursor is None:
            break
    return counted


def tasks(app: App) -> Iterator[Finding]:
    """Tasks that may run for ever."""
    entries = app.registry.entries
    if not entries:
        return
    endless = [entry.name for entry in entries if not _timeout(app, entry.name)]
    if endless:
        advice = "give them timeout=, or all of them one: App(timeout=…), app.queue(…, timeout=…)"
        yield Finding(
            "tasks without a timeout", f"{len(endless)} of {len(entries)}: {_some(endless)}", Grade.NOTE, advice
        )
    else:
        yield Finding("tasks", f"{len(entries)}, all with a timeout")


def _timeout(app: App, name: str) -> int | None:
    task = app.registry.task(name)
    found = app.registry.find(name, (task.wish.queue if task else None) or "default")
    return None if found is None else found.policy.timeout


def _steps(steps: Sequence[object]) -> str:
    return "1 step" if len(steps) == 1 else f"{len(steps)} steps"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _counted(counted: Counter[str]) -> str:
    most = [f"{count} of {task}" for task, count in counted.most_common(SHOWN)]
    rest = len(counted) - SHOWN
    return ", ".join(most) + (f" and {rest} more tasks" if rest > 0 else "")
