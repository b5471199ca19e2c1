"""Pack and unpack jobs as the server stores them; ``lua/prelude/rows.lua`` describes the formats."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any
from zlib import crc32

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.model.job import (
    PLAIN_FIELDS,
    Failure,
    NewJob,
    Retention,
    State,
    StoredJob,
    Until,
    all_plain,
    sets_only,
    stored_failure,
)
from packhorse.model.lease import Lease
from packhorse.model.reason import reason_of

MOMENT = Struct(">d")
SPAN = Struct(">dd")
COUNTERS = Struct(">IH")
ID = Struct("16s")
_TRY = Struct(">16sIdI")
_SCOPES = {Until.WINDOW: "w", Until.STARTED: "s", Until.FINISHED: "f"}
_PLACES = {ord("r"): State.READY, ord("s"): State.SCHEDULED, ord("w"): State.WAITING, ord("l"): State.RUNNING}
_VERDICTS = {ord("d"): State.DONE, ord("k"): State.DEAD, ord("c"): State.CANCELLED}
Given = tuple[bytes, bytes, int, int, int, int, int]  # id, token, claimed, until, attempt, losses, fence


class Head(msgspec.Struct, frozen=True):
    """What scripts read of a record, and the length of its headers."""

    queue: str
    priority: int
    task: str
    tenant: str | None
    headers: int
    lane: str | None = None
    lane_limit: int = 1
    parent: bytes | None = None
    unique: str | None = None
    children: int = 0


UNREADABLE = Head("?", 0, "?", None, 0)
_FORMS = {ord("1"): 9, ord("2"): 21}  # where the head begins, by the form of the record
_FORM_READY = ord("1")
_HEAD_STOP = b"\x1e"  # ends the head; a check letter follows
_ID_BYTES = 8  # of the id at the end of a record
_ENQUEUED, _DUE = 1, 9  # where times begin in a record
# Where fields begin in a live row (constants.lua counts from 1)
_WORKER, _PLACE, _MARK, _COUNTERS, _HEAD = 16, 32, 33, 34, 44
_CANCELLING = ord("2")  # this mark and those above
# Where fields begin in the row of an ended job
_FINISHED, _ENDED_COUNTERS, _REASON, _POSITION = 17, 25, 35, -4
_short = sets_only(*PLAIN_FIELDS, "delay", "at")


@lru_cache(maxsize=4096)
def _plain(head: tuple[str, str, int, str, str | None, int]) -> bytes:
    flag, queue, priority, task, tenant, headers = head
    return _closed(f"{flag}{queue}\x1f{priority}\x1f{task}\x1f{tenant or ''}\x1f{headers}")


def _full(job: NewJob) -> bytes:
    unique = job.unique
    scope, window = (_SCOPES[unique.until], unique.window) if unique else ("", 0)
    return _closed(
        f"{'s' if scope == 's' else 'x'}{job.lane or ''}\x1f{job.lane_limit}"
        f"\x1f{job.queue}\x1f{job.priority}\x1f{job.task}\x1f{job.tenant or ''}\x1f{len(job.headers)}"
        f"\x1f{job.parent.hex() if job.parent else ''}"
        f"\x1f{unique.key if unique else ''}\x1f{scope}\x1f{window}\x1f{job.children}"
    )


def _closed(head: str) -> bytes:
    """Return the head with the check letter, by which scripts tell heads apart quickly."""
    data = head.encode()
    return data + _HEAD_STOP + b"%c" % (33 + crc32(data) % 94)


def job_row(job: NewJob) -> tuple[bytes, bytes, str]:
    """Return a new job as a row for scripts: its id, its record without the times, and when it is due."""
    later = f"{job.delay} {job.at}" if job.delay or job.at else ""
    if _short((job,)):
        head = _plain(("d" if later else "p", job.queue, job.priority, job.task, job.tenant, len(job.headers)))
    else:
        head, later = _full(job), later or "0 0"
    return job.id, head + job.headers + job.payload + job.id[-_ID_BYTES:], later


def plain_job_rows(jobs: Sequence[NewJob]) -> list[bytes] | None:
    """Return ids and records of plain jobs of one queue and priority; None if some job is not plain."""
    if not all_plain(jobs):
        return None
    rows: list[bytes] = []
    queue, priority = jobs[0].queue, jobs[0].priority
    for job in jobs:
        if job.priority != priority or job.queue != queue:
            return None
        one, headers = job.id, job.headers
        head = _plain(("p", queue, priority, job.task, job.tenant, len(headers)))
        rows += (one, b"".join((head, headers, job.payload, one[-_ID_BYTES:])))
    return rows if len(set(rows[::2])) == len(jobs) else None


@lru_cache(maxsize=8192)
def _head(text: bytes) -> Head:
    return _parsed(text.decode())


def _parsed(text: str) -> Head:
    fields = text[1:].split("\x1f")
    lane, limit = (fields.pop(0), fields.pop(0)) if text[:1] in "xs" else ("", "1")
    queue, priority, task, tenant, headers, *rest = fields
    parent, unique, _, _, children = rest or ("", "", "", "", "0")
    return Head(
        queue=queue,
        priority=int(priority),
        task=task,
        tenant=tenant or None,
        headers=int(headers),
        lane=lane or None,
        lane_limit=int(limit),
        parent=bytes.fromhex(parent) or None,
        unique=unique or None,
        children=int(children),
    )


def _opened(record: bytes) -> tuple[Head, bytes, bytes]:
    first = _FORMS.get(record[0])
    if first is None:
        raise UndecodablePayload(f"This release does not know records of form {record[:1]!r}: upgrade Packhorse")
    stop = record.index(_HEAD_STOP, first)
    head = _head(record[first:stop])
    middle = stop + 2 + head.headers
    return head, record[stop + 2 : middle], record[middle:-_ID_BYTES]


def _moment(data: bytes, at: int) -> int:
    return int(MOMENT.unpack_from(data, at)[0])


def since_of(record: bytes) -> int:
    """Return since when a job is ready that has no live row: it was enqueued, or came due."""
    enqueued = _moment(record, _ENQUEUED)
    return enqueued if record[0] == _FORM_READY else max(enqueued, _moment(record, _DUE))


def lease_of(given: Given, record: bytes) -> Lease:
    """Return a lease, from the row of a claim and the record of the job."""
    job, token, claimed, until, attempt, lost, fence = given
    head, headers, payload = _opened(record)
    return Lease(
        id=job,
        token=token,
        until=until,
        task=head.task,
        queue=head.queue,
        payload=payload,
        headers=headers,
        priority=head.priority,
        attempt=attempt,
        lost=lost,
        enqueued_at=_moment(record, _ENQUEUED),
        lane=head.lane,
        parent=head.parent,
        claimed=claimed,
        fence=fence,
    )


def lease_or_fault(given: Given, record: bytes) -> Lease:
    """Return the lease of a job; if its record is unreadable, the lease has a fault with the reason."""
    try:
        return lease_of(given, record)
    except Exception as error:  # noqa: BLE001 - records may come from other languages and newer releases
        job, token, claimed, until, attempt, lost, fence = given
        head = _shown_head(record)
        return Lease(
            id=job, token=token, claimed=claimed, until=until, task=head.task, queue=head.queue, payload=b"",
            headers=b"{}", priority=head.priority, attempt=attempt, lost=lost, enqueued_at=0, fence=fence,
            fault=f"The record of the job cannot be opened: {error}",
        )  # fmt: skip


def job_of(id: bytes, packed: Sequence[Any]) -> StoredJob:
    """Return a stored job, with the bodies that came; if it is unreadable, what can be shown, with bad bytes replaced."""
    try:
        return _job_of(id, packed)
    except Exception:  # noqa: BLE001 - one bad record must not hide the others
        return _shown_job(id, packed)


def _shown_job(id: bytes, packed: Sequence[Any]) -> StoredJob:
    record, row, end, _, progress, delivered, score = packed
    head = _shown_head(record)
    standing: dict[str, Any] = {"state": State.SCHEDULED if score else State.READY, "since": 0}
    for read, texts in ((_ended, (end,)), (_live, (row, record, score))):
        with contextlib.suppress(Exception):
            if texts[0]:
                standing = read(*texts)
                break
    return StoredJob(
        id=id, task=head.task, queue=head.queue, payload=b"", headers=b"{}", priority=head.priority, enqueued_at=0,
        tenant=head.tenant, lane=head.lane, lane_limit=head.lane_limit, parent=head.parent, unique=head.unique,
        delivered=int(delivered), progress=progress, **{"children": head.children, **standing},
    )  # fmt: skip


def _shown_head(record: bytes) -> Head:
    """Return the head of a record as far as it is readable."""
    first = _FORMS.get(record[0] if record else 0, _FORMS[ord("2")])
    stop = record.find(_HEAD_STOP, first)
    try:
        return _parsed(record[first:stop].decode(errors="replace")) if stop > 0 else UNREADABLE
    except ValueError:
        return UNREADABLE


def _job_of(id: bytes, packed: Sequence[Any]) -> StoredJob:
    record, row, end, tries, progress, delivered, score = packed
    head, headers, payload = _opened(record)
    standing = _ended(end) if end else _live(row, record, score)
    return StoredJob(
        id=id,
        task=head.task,
        queue=head.queue,
        payload=payload,
        headers=headers,
        priority=head.priority,
        enqueued_at=_moment(record, _ENQUEUED),
        tenant=head.tenant,
        lane=head.lane,
        lane_limit=head.lane_limit,
        parent=head.parent,
        unique=head.unique,
        delivered=int(delivered),
        progress=progress,
        failures=tuple(_failures(tries)),
        **{"children": head.children, **standing},
    )


def _ended(row: bytes) -> dict[str, Any]:
    attempt, lost = COUNTERS.unpack_from(row, _ENDED_COUNTERS)
    reason, _, result = row[_REASON:_POSITION].partition(b"\x1f")
    return {
        "state": _VERDICTS[row[0]],
        "since": _moment(row, _FINISHED),
        "attempt": attempt,
        "lost": lost,
        "reason": reason_of(reason.decode(errors="replace")),
        "result": result[1:] if result else None,
    }


def _live(row: bytes, record: bytes, score: bytes) -> dict[str, Any]:
    if not row:
        state = State.SCHEDULED if score else State.READY
        return {"state": state, "since": int(float(score)) if score else since_of(record)}
    attempt, lost = COUNTERS.unpack_from(row, _COUNTERS)
    tail = row[row.index(_HEAD_STOP, _HEAD) + 2 : -1]
    found: dict[str, Any] = {"state": _PLACES[row[_PLACE]], "attempt": attempt, "lost": lost}
    if found["state"] is State.RUNNING:
        found |= {
            "worker": row[_WORKER:_PLACE],
            "cancelling": row[_MARK] >= _CANCELLING,
            "until": int(float(score)) if score else None,
        }
        return found | {"since": _moment(tail, 0)}
    if found["state"] is State.WAITING:
        found |= _waiting(tail)
    return found | {"since": int(float(score)) if score else _moment(tail, 0)}


def _waiting(tail: bytes) -> dict[str, Any]:
    reason, children, _, _, _, detail = tail[8:].split(b"\x1f", 5)
    found: dict[str, Any] = {
        "reason": reason_of(reason.decode(errors="replace")),
        "detail": detail.decode(errors="replace"),
    }
    return found | {"children": int(children)} if reason == b"children" else found


def _failures(packed: bytes) -> Iterator[Failure]:
    at = 0
    while at < len(packed):
        _, attempt, moment, size = _TRY.unpack_from(packed, at)
        at += _TRY.size
        if size:
            yield stored_failure(packed[at : at + size], attempt, int(moment))
        at += size


def keep_text(keep: Retention) -> str:
    """A keep as an argument of a script, and as part of the name of a retention group."""
    return f"{keep.count}\x1f{keep.age}"
