"""Looking at jobs: by id, and page by page."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.ids import JobId
from packhorse.model.job import Failure, Job, State, stored_failure
from packhorse.model.page import Filter, Page
from packhorse.model.reason import reason_of
from packhorse.stores.sqlite.step import SQL, Step, as_json, seqs_of

Key = tuple[Any, ...]

_START: dict[State, Key] = {State.SCHEDULED: (0, 0), State.READY: (-1, 0, 0), State.WAITING: (0, 0)}  # of a queue
_PAGES = {
    State.SCHEDULED: SQL.page_scheduled,
    State.READY: SQL.page_ready,
    State.RUNNING: SQL.page_running,
    State.WAITING: SQL.page_waiting,
}


def get(step: Step, ids: Sequence[JobId]) -> list[Job | None]:
    """Answer each id with its job, or None."""
    seqs = seqs_of(step, ids)
    found = {job.id: job for job in view(step, [seq for seq in dict.fromkeys(seqs) if seq is not None])}
    return [found.get(job) for job in ids]


def watchable(step: Step, ids: Sequence[JobId], least: int) -> tuple[list[int], dict[JobId, Job | None]]:
    """Rowids of jobs that have not ended and are not watched for so long, and what has ended or is not there."""
    seqs = dict(zip(ids, seqs_of(step, ids), strict=True))
    rows = step.rows(SQL.watchable, as_json([seq for seq in seqs.values() if seq is not None]), step.now + least)
    ended = [seq for seq, over in rows if over]
    known: dict[JobId, Job | None] = {job: None for job, seq in seqs.items() if seq is None}
    return [seq for seq, over in rows if not over], known | {
        job.id: job for job in (view(step, ended) if ended else ())
    }


def view(step: Step, seqs: Sequence[int]) -> list[Job]:
    """All that is known of jobs, in the order of their rowids given."""
    wanted = as_json(seqs)
    failures: dict[int, list[Failure]] = {}
    for seq, attempt, at, error in step.rows(SQL.failures, wanted):
        failures.setdefault(seq, []).append(stored_failure(error, attempt, at))
    return [_job(row, tuple(failures.get(row[0], ()))) for row in step.rows(SQL.view, wanted)]


def _job(row: Any, failures: tuple[Failure, ...]) -> Job:
    (
        _, job, task, queue, payload, headers, priority, born, tenant, lane, lane_limit, parent, children, unique_key,
        state, since, attempt, lost, reason, detail, pending, worker, until, cancelling, delivered, progress, result,
    ) = row  # fmt: skip
    where = State(state)
    return Job(
        id=job, task=task, queue=queue, payload=payload, headers=headers, priority=priority, born=born, state=where,
        since=since, tenant=tenant, lane=lane, lane_limit=lane_limit or 1, parent=parent, unique=unique_key,
        reason=reason_of(reason), detail=detail or "", attempt=attempt, lost=lost, worker=worker, until=until,
        cancelling=bool(cancelling), children=pending or children or 0, delivered=delivered or 0, progress=progress,
        result=result, failures=failures,
    )  # fmt: skip


def find(step: Step, filter: Filter, limit: int, cursor: str | None) -> Page[Job]:
    """Look at a bounded number of jobs, state by state, and answer those that fit."""
    states = [state for state in State if filter.state is None or state is filter.state]
    start, key = _parsed(cursor, states)
    items: list[Job] = []
    looked = 0
    for state in states[states.index(start) :]:
        spots = _spots(step, state, key, filter.queue, caps.LOOKED_AT - looked)
        for spot, job in _jobs(step, spots, limit):
            looked += 1
            if filter.fits(job):
                items.append(job)
            if len(items) == limit or looked == caps.LOOKED_AT:
                return Page(tuple(items), as_json((state, spot)))
        key = None
    return Page(tuple(items))


def _parsed(cursor: str | None, states: Sequence[State]) -> tuple[State, Key | None]:
    if cursor is None:
        return states[0], None
    try:
        state, key = msgspec.json.decode(cursor, type=tuple[State, tuple[Any, ...]])
        return states[states.index(state)], key
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption("cursor", cursor, "give the cursor of the page before, with the same filter") from error


def _spots(step: Step, state: State, key: Key | None, queue: str | None, most: int) -> list[tuple[int, Key]]:
    """Rowids of jobs of a state in their order, each with the key to go on from."""
    if state.ended:
        return list(islice(_ended(step, state, key, queue, most), most))
    if key is None:
        key = (0,) if state is State.RUNNING else (queue or "", *_START[state])
    last = b"" if queue is None else queue
    return [(row[0], tuple(row[1:])) for row in step.rows(_PAGES[state], last, *key, most)]


def _jobs(step: Step, spots: Sequence[tuple[int, Key]], block: int) -> Iterator[tuple[Key, Job]]:
    """Jobs with their keys, read as they are wanted: most callers have enough after the first block."""
    for start in range(0, len(spots), block):
        part = spots[start : start + block]
        yield from zip((spot for _, spot in part), view(step, [seq for seq, _ in part]), strict=True)


def _ended(step: Step, state: State, key: Key | None, queue: str | None, most: int) -> Iterator[tuple[int, Key]]:
    """Rowids of ended jobs, queue by queue, the newest first over all shelves of a queue."""
    shelves: dict[str, list[int]] = {}
    for shelf, of, ended, _, _ in step.rows(SQL.shelves):
        if ended == state and queue in (None, of):
            shelves.setdefault(of, []).append(shelf)
    for name in sorted(shelves):
        if key is not None and name < key[0]:
            continue
        before = key[1] if key is not None and key[0] == name else 1 << 62
        pages = [step.rows(SQL.page_ended, shelf, before, most) for shelf in shelves[name]]
        for seq, number in merge(*pages, key=_newest, reverse=False):
            yield seq, (name, number)


_newest: Callable[[Any], int] = lambda row: -row[1]  # noqa: E731
