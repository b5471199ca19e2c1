"""Jobs as the server keeps them, packed and unpacked; ``lua/prelude/rows.lua`` says how."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any
from zlib import crc32

import msgspec

from packhorse.errors import UndecodablePayload
from packhorse.model.job import Failure, Job, Keep, NewJob, State, Until, stored_failure
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
    """What scripts read of a record, and where the rest of it lies."""

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
_FORMS = {ord("1"): 9, ord("2"): 21}  # where the part that the client made begins
_SALT = 8


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
    """The head with the letter by which scripts tell heads apart quickly."""
    data = head.encode()
    return data + b"\x1e%c" % (33 + crc32(data) % 94)


def wish(job: NewJob) -> tuple[bytes, bytes, str]:
    """A job to be stored: its id, its record without the moments, and when it is due."""
    later = f"{job.delay} {job.at}" if job.delay or job.at else ""
    if job.lane is None and job.unique is None and job.parent is None and not job.children:
        head = _plain(("d" if later else "p", job.queue, job.priority, job.task, job.tenant, len(job.headers)))
    else:
        head, later = _full(job), later or "0 0"
    return job.id, head + job.headers + job.payload + job.id[-_SALT:], later


def plain_wishes(jobs: Sequence[NewJob]) -> list[bytes] | None:
    """Ids and records of plain jobs of one queue and priority that are ready at once; nothing if one is not."""
    rows: list[bytes] = []
    queue, priority = jobs[0].queue, jobs[0].priority
    for job in jobs:
        if (
            job.delay
            or job.at
            or job.lane is not None
            or job.unique is not None
            or job.parent is not None
            or job.children
            or job.priority != priority
            or job.queue != queue
        ):
            return None
        one, headers = job.id, job.headers
        head = _plain(("p", queue, priority, job.task, job.tenant, len(headers)))
        rows += (one, b"".join((head, headers, job.payload, one[-_SALT:])))
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
    stop = record.index(b"\x1e", first)
    head = _head(record[first:stop])
    middle = stop + 2 + head.headers
    return head, record[stop + 2 : middle], record[middle:-_SALT]


def _moment(data: bytes, at: int) -> int:
    return int(MOMENT.unpack_from(data, at)[0])


def since_of(record: bytes) -> int:
    """Since when a job is ready that never moved: it was enqueued, or fell due."""
    return _moment(record, 1) if record[0] == ord("1") else max(_moment(record, 1), _moment(record, 9))


def lease_of(given: Given, record: bytes) -> Lease:
    """One lease out of a claim, of what was given and the record of the job."""
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
        born=_moment(record, 1),
        lane=head.lane,
        parent=head.parent,
        claimed=claimed,
        fence=fence,
    )


def lease_or_fault(given: Given, record: bytes) -> Lease:
    """The lease of a job whose record may not be one that can be opened; then it says why."""
    try:
        return lease_of(given, record)
    except Exception as error:  # noqa: BLE001 - records may come from other languages and newer releases
        job, token, claimed, until, attempt, lost, fence = given
        head = _shown_head(record)
        return Lease(
            id=job, token=token, claimed=claimed, until=until, task=head.task, queue=head.queue, payload=b"",
            headers=b"{}", priority=head.priority, attempt=attempt, lost=lost, born=0, fence=fence,
            fault=f"The record of the job cannot be opened: {error}",
        )  # fmt: skip


def job_of(id: bytes, packed: Sequence[Any]) -> Job:
    """All that is known of a job; of one that cannot be opened what can be shown, with replacements for bad bytes."""
    try:
        return _job_of(id, packed)
    except Exception:  # noqa: BLE001 - one bad record must not hide the others
        return _shown_job(id, packed)


def _shown_job(id: bytes, packed: Sequence[Any]) -> Job:
    record, row, end, _, progress, delivered, score = packed
    head = _shown_head(record)
    standing: dict[str, Any] = {"state": State.SCHEDULED if score else State.READY, "since": 0}
    for read, texts in ((_ended, (end,)), (_live, (row, record, score))):
        with contextlib.suppress(Exception):
            if texts[0]:
                standing = read(*texts)
                break
    return Job(
        id=id, task=head.task, queue=head.queue, payload=b"", headers=b"{}", priority=head.priority, born=0,
        tenant=head.tenant, lane=head.lane, lane_limit=head.lane_limit, parent=head.parent, unique=head.unique,
        delivered=int(delivered), progress=progress, **{"children": head.children, **standing},
    )  # fmt: skip


def _shown_head(record: bytes) -> Head:
    """The head of a record as far as it can be read."""
    first = _FORMS.get(record[0] if record else 0, _FORMS[ord("2")])
    stop = record.find(b"\x1e", first)
    try:
        return _parsed(record[first:stop].decode(errors="replace")) if stop > 0 else UNREADABLE
    except ValueError:
        return UNREADABLE


def _job_of(id: bytes, packed: Sequence[Any]) -> Job:
    record, row, end, tries, progress, delivered, score = packed
    head, headers, payload = _opened(record)
    standing = _ended(end) if end else _live(row, record, score)
    return Job(
        id=id,
        task=head.task,
        queue=head.queue,
        payload=payload,
        headers=headers,
        priority=head.priority,
        born=_moment(record, 1),
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
    attempt, lost = COUNTERS.unpack_from(row, 25)
    reason, _, result = row[35:-4].partition(b"\x1f")
    return {
        "state": _VERDICTS[row[0]],
        "since": _moment(row, 17),
        "attempt": attempt,
        "lost": lost,
        "reason": reason_of(reason.decode(errors="replace")),
        "result": result[1:] if result else None,
    }


def _live(row: bytes, record: bytes, score: bytes) -> dict[str, Any]:
    if not row:
        state = State.SCHEDULED if score else State.READY
        return {"state": state, "since": int(float(score)) if score else since_of(record)}
    attempt, lost = COUNTERS.unpack_from(row, 34)
    tail = row[row.index(b"\x1e", 44) + 2 : -1]
    found: dict[str, Any] = {"state": _PLACES[row[32]], "attempt": attempt, "lost": lost}
    if found["state"] is State.RUNNING:
        found |= {"worker": row[16:32], "cancelling": row[33] > ord("1"), "until": int(float(score)) if score else None}
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


def keep_text(keep: Keep) -> str:
    """How a keep travels, and how it is part of a shelf's name."""
    return f"{keep.count}\x1f{keep.age}"
