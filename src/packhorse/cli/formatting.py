"""Format jobs and workers: plain data for JSON, table rows for people."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from packhorse.cli.screen import Screen, plain, table
from packhorse.errors import JobError
from packhorse.jobs.explain import error, length
from packhorse.jobs.job import Job, JobState
from packhorse.model import codec
from packhorse.model.clock import moment
from packhorse.model.ids import id_text
from packhorse.model.limits import SECOND
from packhorse.model.worker import WorkerInfo

COLUMNS = ("id", "task", "queue", "state", "reason", "attempt", "enqueued_at", "since", "error")
MOMENTS = ("due_at", "ready_at", "started_at", "lease_expires_at", "waiting_since", "ended_at")
OPTIONAL_COLUMNS = ("enqueued_at", "attempt", "since", "queue", "reason")  # left out in this order on a narrow terminal


def brief(job: Job) -> dict[str, Any]:
    """Return the fields of a job that lists show."""
    stored = job.stored
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "reason": job.reason,
        "priority": job.priority,
        "attempt": job.attempt,
        "lost": job.lost,
        "key": job.key,
        "tenant": stored.tenant,
        "enqueued_at": job.enqueued_at,
        **{name: getattr(job, name) for name in MOMENTS},
        "error": error(job.failures[-1]) if job.failures else None,
    }


async def print_jobs(
    jobs: AsyncIterator[Job], screen: Screen, columns: Sequence[str], nothing: str, now: Callable[[], Awaitable[int]]
) -> None:
    """Print a list of jobs; ``now`` returns the time of the store. Only printed fields are kept."""
    found = [brief(job) async for job in jobs]
    moment = await now() if any(job["state"] == JobState.RUNNING for job in found) and not screen.json else 0
    rows = [[{**job, "since": _since(job, moment)}[name] for name in columns] for job in found]
    screen.show(found, lambda: table(columns, rows, right=["attempt"], spare=OPTIONAL_COLUMNS) if rows else nothing)


def _since(job: dict[str, Any], now: int) -> str:
    """Format when a job got its state; for a running job also for how long it has been running."""
    since = next(job[name] for name in MOMENTS if name != "lease_expires_at" and job[name] is not None)
    ran = f" ({length(now - round(since.timestamp() * 1_000_000))})" if job["state"] == JobState.RUNNING else ""
    return f"{plain(since)}{ran}"


def job_data(job: Job, *, arguments: bool) -> dict[str, Any]:
    """Return all fields of a job; its arguments and result only with ``arguments``."""
    stored = job.stored
    return {
        **brief(job),
        "detail": job.detail,
        "headers": _decoded(stored.headers),
        "arguments": _decoded(stored.payload) if arguments else None,
        "result": _decoded(stored.result) if arguments else None,
        "progress": _decoded(stored.progress),
        "unique": stored.unique,
        "parent": None if stored.parent is None else id_text(stored.parent),
        "children": stored.children,
        "delivered": stored.delivered,
        "worker": None if stored.worker is None else id_text(stored.worker),
        "cancelling": stored.cancelling,
        "failures": [
            {
                "attempt": failure.attempt,
                "at": moment(failure.at),
                "type": failure.type,
                "message": failure.message,
                "traceback": failure.traceback,
                "fingerprint": failure.fingerprint,
                "frame": failure.frame,
                "seconds": failure.duration / SECOND,
                "worker": failure.worker,
                "release": failure.release,
            }
            for failure in job.failures
        ],
    }


def worker_data(worker: WorkerInfo) -> dict[str, Any]:
    """Return a worker as plain data for JSON."""
    return {
        "id": id_text(worker.id),
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "release": worker.release,
        "queues": worker.queues,
        "tasks": worker.tasks,
        "slots": worker.slots,
        "started": moment(worker.started),
        "seen": moment(worker.seen),
    }


def _decoded(stored: bytes | None) -> Any:
    """Decode JSON; return sealed or invalid data as text."""
    if stored is None:
        return None
    try:
        return codec.decode(stored)
    except JobError:
        return stored.decode("utf-8", "backslashreplace")
