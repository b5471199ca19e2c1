"""Findings of the doctor about layout, workers, queues and tasks, each with a fix."""

import platform
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import version

from packhorse.app import App
from packhorse.model.finding import Finding, Grade
from packhorse.model.job import State
from packhorse.model.layout import MigrationState, MigrationStep
from packhorse.model.page import Filter
from packhorse.model.queue import QueueStats
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store

MAX_WAITING_READ = 10_000  # waiting jobs
MAX_NAMES_SHOWN = 5


def release() -> Finding:
    """Report the versions of Packhorse and Python."""
    return Finding("Packhorse", f"{version('packhorse')} on Python {platform.python_version()}")


def layout(steps: Sequence[MigrationStep]) -> Finding:
    """Report whether the layout fits this release."""
    by: dict[MigrationState, list[str]] = {}
    for step in steps:
        by.setdefault(step.state, []).append(step.name)
    unknown = by.get(MigrationState.UNKNOWN, [])
    if any(step.state is MigrationState.UNKNOWN and not step.usable for step in steps):
        return Finding("layout", f"has {_some(unknown)}, of a newer release", Grade.BAD, "upgrade Packhorse here")
    if changed := by.get(MigrationState.CHANGED):
        advice = "install the release that made this layout"
        return Finding("layout", f"{_some(changed)} changed after it was taken", Grade.BAD, advice)
    if pending := by.get(MigrationState.PENDING):
        return Finding("layout", f"{_steps(pending)} to be taken", Grade.BAD, "packhorse migrate up")
    if unknown:
        words = f"has {_some(unknown)}, of a newer release, compatible with this one"
        return Finding("layout", words, Grade.NOTE, "upgrade Packhorse here when the rollout goes on")
    return Finding("layout", f"up to date, {_steps(steps)}")


async def work(store: Store) -> AsyncIterator[Finding]:
    """Report on the workers, queues and jobs of an open store."""
    workers, queues = await store.fleet.workers(), await store.queues.stats()
    for finding in (*_workers(workers, queues), *_queues(queues, workers)):
        yield finding
    if sum(queue.counts.get(State.WAITING, 0) for queue in queues):
        unknown_tasks = await _unroutable(store)
        if unknown_tasks:
            advice = "start a worker that has these tasks, or enqueue them under the right name"
            yield Finding("unroutable jobs", _counted(unknown_tasks), Grade.WARN, advice)
    if dead := sum(queue.counts.get(State.DEAD, 0) for queue in queues):
        yield Finding("dead letters", f"{dead:,}", Grade.NOTE, "packhorse dead groups")


def _workers(workers: Sequence[WorkerInfo], queues: Sequence[QueueStats]) -> Iterator[Finding]:
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


def _queues(queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]) -> Iterator[Finding]:
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
    """Count the jobs that no worker knows, by task."""
    counted: Counter[str] = Counter()
    wanted, cursor = Filter(state=State.WAITING, reason=WaitReason.UNROUTABLE), None
    while counted.total() < MAX_WAITING_READ:
        page = await store.jobs.find(wanted, limit=500, cursor=cursor, bodies=False)
        counted.update(job.task for job in page.items)
        cursor = page.cursor
        if cursor is None:
            break
    return counted


def tasks(app: App) -> Iterator[Finding]:
    """Report tasks without a timeout."""
    entries = app.registry.entries
    if not entries:
        return
    endless = [entry.name for entry in entries if not _timeout(app, entry.name)]
    if endless:
        advice = "set timeout= on them, or for many at once: App(timeout=…), app.queue(…, timeout=…)"
        yield Finding(
            "tasks without a timeout", f"{len(endless)} of {len(entries)}: {_some(endless)}", Grade.NOTE, advice
        )
    else:
        yield Finding("tasks", f"{len(entries)}, all with a timeout")


def _timeout(app: App, name: str) -> int | None:
    task = app.registry.task(name)
    found = app.registry.find(name, (task.call_options.queue if task else None) or "default")
    return None if found is None else found.policy.timeout


def _steps(steps: Sequence[object]) -> str:
    return "1 step" if len(steps) == 1 else f"{len(steps)} steps"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMES_SHOWN
    return ", ".join(names[:MAX_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _counted(counted: Counter[str]) -> str:
    most = [f"{count} of {task}" for task, count in counted.most_common(MAX_NAMES_SHOWN)]
    rest = len(counted) - MAX_NAMES_SHOWN
    return ", ".join(most) + (f" and {rest} more tasks" if rest > 0 else "")
