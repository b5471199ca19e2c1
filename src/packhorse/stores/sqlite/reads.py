"""Looking at jobs: by id, and page by page."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from packhorse.model import limits
from packhorse.model.ids import JobId
from packhorse.model.job import Failure, State, StoredJob, stored_failure
from packhorse.model.page import Filter, Page
from packhorse.model.reason import reason_of
from packhorse.stores.cursor import cursor_of, is_like, position_of, refused
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork, as_json, seqs_of

Key = tuple[Any, ...]

_START: dict[State, Key] = {State.SCHEDULED: (0, 0), State.READY: (-1, 0, 0), State.WAITING: (0, 0)}  # of a queue
_NEWEST = 1 << 62  # above the number of every end
_PAGES = {
    State.SCHEDULED: SQL.page_scheduled,
    State.READY: SQL.page_ready,
    State.RUNNING: SQL.page_running,
    State.WAITING: SQL.page_waiting,
}


def get(step: UnitOfWork, ids: Sequence[JobId], *, bodies: bool = True) -> list[StoredJob | None]:
    """Answer each id with its job, or None."""
    seqs = [seq for seq in dict.fromkeys(seqs_of(step, ids)) if seq is not None]
    found = {job.id: job for job in view(step, seqs, bodies=bodies)}
    return [found.get(job) for job in ids]


def watchable(step: UnitOfWork, ids: Sequence[JobId], least: int) -> tuple[list[int], dict[JobId, StoredJob | None]]:
    """Rowids of jobs that have not ended and are not watched for so long, and what has ended or is not there."""
    seqs = dict(zip(ids, seqs_of(step, ids), strict=True))
    rows = step.rows(SQL.watchable, as_json([seq for seq in seqs.values() if seq is not None]), step.now + least)
    ended = [seq for seq, over in rows if over]
    known: dict[JobId, StoredJob | None] = {job: None for job, seq in seqs.items() if seq is None}
    return [seq for seq, over in rows if not over], known | {
        job.id: job for job in (view(step, ended) if ended else ())
    }


def view(step: UnitOfWork, seqs: Sequence[int], *, bodies: bool = True) -> list[StoredJob]:
    """All that is known of jobs, in the order of their rowids given; without bodies, less is read."""
    wanted = as_json(seqs)
    failures: dict[int, list[Failure]] = {}
    for seq, attempt, at, error in step.rows(SQL.failures, wanted):
        failures.setdefault(seq, []).append(stored_failure(error, attempt, at, bodies=bodies))
    return [_job(row, tuple(failures.get(row[0], ()))) for row in step.rows(SQL.view, wanted, bodies)]


def _job(row: Any, failures: tuple[Failure, ...]) -> StoredJob:
    (
        _, job, task, queue, payload, headers, priority, enqueued_at, tenant, lane, lane_limit, parent, children, unique_key,
        state, since, attempt, lost, reason, detail, pending, worker, until, cancelling, delivered, progress, result,
    ) = row  # fmt: skip
    where = State(state)
    return StoredJob(
        id=job, task=task, queue=queue, payload=payload, headers=headers, priority=priority, enqueued_at=enqueued_at, state=where,
        since=since, tenant=tenant, lane=lane, lane_limit=lane_limit or 1, parent=parent, unique=unique_key,
        reason=reason_of(reason), detail=detail or "", attempt=attempt, lost=lost, worker=worker, until=until,
        cancelling=bool(cancelling), children=pending or children or 0, delivered=delivered or 0, progress=progress,
        result=result, failures=failures,
    )  # fmt: skip


def find(step: UnitOfWork, filter: Filter, limit: int, cursor: str | None, *, bodies: bool = True) -> Page[StoredJob]:
    """Look at a bounded number of jobs, state by state, and answer those that fit."""
    states = [state for state in State if filter.state is None or state is filter.state]
    start, key = _parsed(cursor, states)
    items: list[StoredJob] = []
    looked = 0
    for state in states[states.index(start) :]:
        entries = _entries(step, state, key, filter.queue, limits.LOOKED_AT - looked)
        for key_of_job, job in _jobs(step, entries, limit, bodies=bodies):
            looked += 1
            if filter.fits(job):
                items.append(job)
            if len(items) == limit or looked == limits.LOOKED_AT:
                return Page(tuple(items), cursor_of((state, key_of_job)))
        key = None
    return Page(tuple(items))


def _parsed(cursor: str | None, states: Sequence[State]) -> tuple[State, Key | None]:
    if cursor is None:
        return states[0], None
    state, key = position_of(cursor, tuple[State, tuple[str | int, ...]])
    pattern = ("", *_START[state]) if state in _START else (0,)
    if state not in states or not is_like(key, pattern):
        raise refused(cursor)
    return state, key


def _entries(step: UnitOfWork, state: State, key: Key | None, queue: str | None, most: int) -> list[tuple[int, Key]]:
    """Rowids of jobs of a state in their order, each with the key to go on from."""
    if state.ended:
        entries = _ended(step, state, key[0] if key is not None else _NEWEST, queue, most)
        return [(seq, (number,)) for seq, number in islice(entries, most)]
    if key is None:
        key = (0,) if state is State.RUNNING else (queue or "", *_START[state])
    last = b"" if queue is None else queue
    return [(row[0], tuple(row[1:])) for row in step.rows(_PAGES[state], last, *key, most)]


def _jobs(
    step: UnitOfWork, entries: Sequence[tuple[int, Key]], block: int, *, bodies: bool
) -> Iterator[tuple[Key, StoredJob]]:
    """Jobs with their keys, read as they are wanted: most callers have enough after the first block."""
    for start in range(0, len(entries), block):
        part = entries[start : start + block]
        jobs = view(step, [seq for seq, _ in part], bodies=bodies)
        yield from zip((key for _, key in part), jobs, strict=True)


def _ended(step: UnitOfWork, state: State, before: int, queue: str | None, most: int) -> Iterator[tuple[int, int]]:
    """Rowids of ended jobs with their numbers, the newest first over all queues, or over one."""
    groups = [
        group for group, of, ended, *_ in step.rows(SQL.retention_groups) if ended == state and queue in (None, of)
    ]
    size = 2 * most // max(len(groups), 1) + 1  # of the first pages: all together are about twice what is wanted
    pages = [_ended_of(step, group, before, size) for group in groups]
    return merge(*pages, key=_number, reverse=True)


def _ended_of(step: UnitOfWork, group: int, before: int, size: int) -> Iterator[tuple[int, int]]:
    """The same of one retention group, page by page as they are wanted."""
    while page := step.rows(SQL.page_ended, group, before, size):
        yield from page
        if len(page) < size:
            return
        before, size = page[-1][1], 2 * size


_number: Callable[[Any], int] = itemgetter(1)
