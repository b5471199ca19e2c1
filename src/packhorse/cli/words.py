"""Jobs as plain data for JSON, and as lines for people."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from packhorse.cli.screen import Screen, plain, table
from packhorse.errors import JobError
from packhorse.jobs.explain import error, length
from packhorse.jobs.view import Job, Status, moment
from packhorse.model import codec
from packhorse.model.ids import id_text

LINE = ("id", "task", "queue", "state", "reason", "attempt", "enqueued_at", "since", "error")
SPARE = ("enqueued_at", "attempt", "since", "queue", "reason")  # in this order, on a narrow terminal


def brief(job: Job) -> dict[str, Any]:
    """What a list tells of a job."""
    stored = job.stored
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.status.value,
        "reason": job.reason,
        "priority": job.priority,
        "attempt": job.attempt,
        "lost": job.lost,
        "key": job.key,
        "tenant": stored.tenant,
        "enqueued_at": job.enqueued_at,
        "since": job.since,
        "error": error(job.failures[-1]) if job.failures else None,
    }


async def listed(
    jobs: AsyncIterator[Job], screen: Screen, columns: Sequence[str], nothing: str, now: Callable[[], Awaitable[int]]
) -> None:
    """Print jobs as a list; of each only what is printed is kept. ``now`` tells the time of the store."""
    found = [brief(job) async for job in jobs]
    moment = await now() if any(job["state"] == Status.RUNNING for job in found) and not screen.json else 0
    rows = [[{**job, "since": _since(job, moment)}[name] for name in columns] for job in found]
    screen.show(found, lambda: table(columns, rows, right=["attempt"], spare=SPARE) if rows else nothing)


def _since(job: dict[str, Any], now: int) -> str:
    """The moment of a state; of a running job also how long it has been running."""
    since = job["since"]
    ran = f" ({length(now - round(since.timestamp() * 1_000_000))})" if job["state"] == Status.RUNNING else ""
    return f"{plain(since)}{ran}"


def whole(job: Job, *, arguments: bool) -> dict[str, Any]:
    """All that is known of a job; what it was enqueued with and what came of it only if wanted."""
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
            }
            for failure in job.failures
        ],
    }


def _decoded(stored: bytes | None) -> Any:
    """Plain data; what is sealed or no JSON is shown as the text it is."""
    if stored is None:
        return None
    try:
        return codec.decode(stored)
    except JobError:
        return stored.decode("utf-8", "backslashreplace")
