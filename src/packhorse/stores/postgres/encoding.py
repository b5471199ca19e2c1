"""Values of the model to parameters: arrays for what is plain, JSON text for what is not.

Ids travel in JSON as hex. Payload, headers, values and results are text already and travel as JSON strings,
never nested, so every byte of them is kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec

from packhorse.errors import InvalidName
from packhorse.model.effect import Effect, Enqueue, Publish, Put
from packhorse.model.event import LIFECYCLE
from packhorse.model.ids import chosen
from packhorse.model.job import KEEP_DONE, Failure, NewJob, Retention, all_plain
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, Outcome, Wait
from packhorse.model.reason import WaitReason


class _Job(msgspec.Struct, omit_defaults=True):
    """A job to create; what is left out has its usual value on the other side too."""

    id: str
    task: str
    by: int | None = None
    queue: str = "default"
    priority: int = 10
    delay: int = 0
    at: int = 0
    lane: str | None = None
    lane_limit: int = 1
    parent: str | None = None
    children: int = 0
    tenant: str | None = None
    unique_key: str | None = None
    scope: str | None = None
    window: int = 0
    headers: str = "{}"
    payload: str = "{}"


class _Detail(msgspec.Struct, omit_defaults=True):
    """An outcome that is not plain done, by the position of its settlement."""

    n: int
    kind: str
    delay: int = 0
    charged: bool = True
    error: str | None = None
    reason: str | None = None
    detail: str | None = None
    children: int = 0
    on_kind: str | None = None
    on_key: str | None = None
    after: int | None = None
    step: int | None = None
    keep_count: int | None = None
    keep_age: int | None = None


class _Put(msgspec.Struct, omit_defaults=True):
    kind: str
    key: str
    by: int | None = None
    value: str | None = None
    expect: int | None = None
    due: int = 0
    expires: int = 0


class _Event(msgspec.Struct, omit_defaults=True):
    stream: str
    data: str
    by: int | None = None
    key: str | None = None


class _Unusual(msgspec.Struct, omit_defaults=True):
    """All of an exchange that its plain parameters do not say."""

    details: list[_Detail] = []
    ordered: bool = False
    puts: list[_Put] = []
    runs: list[list[_Job]] = []
    keyed: bool = False
    laned: bool = False
    events: list[_Event] = []


class Runs(msgspec.Struct):
    """New jobs as texts of JSON; ``keyed`` if any has a unique key, ``laned`` if any has a lane."""

    texts: list[str]
    keyed: bool
    laned: bool


class EncodedSettlements(msgspec.Struct):
    """The settlements of an exchange as parameters; ``unusual`` is None if all are plain."""

    ids: list[bytes]
    tokens: list[bytes]
    results: list[bytes | None]
    unusual: str | None


def plain(new: Sequence[NewJob]) -> tuple[Any, ...] | None:
    """Encode jobs as columns; None if there are none, or if some are not plain or have a chosen id.

    What many have in common is sent once: each job has the number of its kind. How many are of each comes after the kinds.
    """
    if not all_plain(new):
        return None
    kinds: dict[tuple[str, str, int, str | None, bytes], int] = {}
    numbers = []
    for job in new:
        if chosen(job.id):
            return None
        numbers.append(kinds.setdefault((job.task, job.queue, job.priority, job.tenant, job.headers), len(kinds) + 1))
    ids = [job.id for job in new]
    if not ids:
        return None
    counts = list(Counter(numbers).values())  # in the order they first came, as the kinds
    return ids, min(ids), max(ids), numbers, *zip(*kinds, strict=True), counts, [job.payload for job in new]


def jobs(new: Sequence[NewJob]) -> Runs:
    """Jobs to enqueue, in order."""
    runs, keyed = _runs([_job(job, None) for job in new])
    return Runs([_text(run) for run in runs], keyed, any(job.lane for job in new))


def puts(given: Sequence[Put]) -> str:
    """Records to put, in order."""
    return _text([_put(put, None) for put in given])


def events(given: Sequence[Publish]) -> str:
    """Events to publish, in order."""
    return _text([_event(event, None) for event in given])


def settlements(given: Sequence[Settlement]) -> EncodedSettlements:
    """Outcomes and effects of an exchange; refuses effects to the store's own stream."""
    ids = [settlement.lease.id for settlement in given]
    tokens = [settlement.lease.token for settlement in given]
    results = [settlement.outcome.result if type(settlement.outcome) is Done else None for settlement in given]
    unusual = _unusual(given)
    if unusual is not None or len(set(ids)) < len(ids):
        unusual = unusual or _Unusual()
        unusual.ordered = _ordered(unusual) or len(set(ids)) < len(ids)
        return EncodedSettlements(ids, tokens, results, _text(unusual))
    return EncodedSettlements(ids, tokens, results, None)


def _unusual(given: Sequence[Settlement]) -> _Unusual | None:
    unusual: _Unusual | None = None
    new: list[_Job] = []
    for n, settlement in enumerate(given, 1):
        outcome = settlement.outcome
        if type(outcome) is Done and outcome.keep == KEEP_DONE and not settlement.effects:
            continue
        unusual = unusual or _Unusual([], puts=[], events=[])
        unusual.details.append(_detail(n, outcome))
        new += _enqueued(settlement.effects, n, unusual)
    if unusual is not None:
        _bring(new, unusual)
    return unusual


def moves(given: Sequence[Sequence[Effect]]) -> str:
    """Effects that belong to no lease, by the number of their move."""
    unusual = _Unusual(puts=[], events=[])
    _bring([job for n, effects in enumerate(given, 1) for job in _enqueued(effects, n, unusual)], unusual)
    return _text(unusual)


def _enqueued(effects: Sequence[Effect], n: int, unusual: _Unusual) -> list[_Job]:
    """Note puts and events, and answer the jobs."""
    new = []
    for effect in effects:
        if isinstance(effect, Enqueue):
            new.append(_job(effect.job, n))
        elif isinstance(effect, Put):
            unusual.puts.append(_put(effect, n))
        else:
            unusual.events.append(_event(effect, n))
    return new


def _bring(new: list[_Job], unusual: _Unusual) -> None:
    if new:
        unusual.runs, unusual.keyed = _runs(new)
        unusual.laned = any(job.lane for job in new)


def _ordered(unusual: _Unusual) -> bool:
    """Whether settlements must be gone through one by one: one may change what another finds."""
    return bool(unusual.puts) or any(
        detail.kind == "held" or detail.on_kind is not None or detail.children for detail in unusual.details
    )


def _runs(new: list[_Job]) -> tuple[list[list[_Job]], bool]:
    """Consecutive runs that hold no id and no unique key twice; without unique keys one run holds all."""
    if not any(job.unique_key for job in new):
        return [new], False
    runs: list[list[_Job]] = [[]]
    seen: set[tuple[str, str | None]] = set()
    for job in new:
        marks = {("id", job.id)} | ({("key", job.unique_key)} if job.unique_key else set())
        if marks & seen:
            runs.append([])
            seen = set()
        runs[-1].append(job)
        seen |= marks
    return runs, True


def _job(job: NewJob, by: int | None) -> _Job:
    made = _Job(
        job.id.hex(), job.task, by, job.queue, job.priority, job.delay, job.at, job.lane, job.lane_limit,
        job.parent.hex() if job.parent else None, job.children, job.tenant,
        headers=job.headers.decode(), payload=job.payload.decode(),
    )  # fmt: skip
    if job.unique:
        made.unique_key, made.scope, made.window = job.unique.key, job.unique.until.value[0], job.unique.window
    return made


def _put(put: Put, by: int | None) -> _Put:
    value = None if put.value is None else put.value.decode()
    return _Put(put.kind, put.key, by, value, put.expect, put.due, put.expires)


def _event(event: Publish, by: int | None) -> _Event:
    if event.stream == LIFECYCLE:
        raise InvalidName("stream", event.stream, "only the store writes the lifecycle of jobs")
    return _Event(event.stream, event.data.decode(), by, event.key)


def _detail(n: int, outcome: Outcome) -> _Detail:
    match outcome:
        case Done(keep=keep):
            return _kept(_Detail(n, "done"), keep)
        case Cancelled(keep=keep, error=error):
            return _kept(_Detail(n, "cancelled", error=_error(error) if error else None), keep)
        case Dead(reason=reason, error=error, keep=keep):
            return _kept(_Detail(n, "dead", error=_error(error), reason=reason.value), keep)
        case Again(delay=delay, error=error, charged=charged):
            return _Detail(n, "again", delay, charged, error=_error(error) if error else None)
        case Held(step=step):
            return _Detail(n, "held", step=step)
        case Wait():
            return _wait(n, outcome)
        case _:
            assert_never(outcome)


def _wait(n: int, wait: Wait) -> _Detail:
    made = _Detail(n, "wait", charged=False, reason=wait.reason.value, detail=wait.detail, children=wait.children)
    if wait.on is not None and wait.reason is WaitReason.SIGNAL:
        made.on_kind, made.on_key, made.after = wait.on.kind, wait.on.key, wait.on.after
    return made


def _kept(detail: _Detail, keep: Retention) -> _Detail:
    detail.keep_count, detail.keep_age = keep.count, keep.age
    return detail


def _error(error: Failure) -> str:
    return msgspec.json.encode(error).decode()


def _text(value: Iterable[Any] | _Unusual) -> str:
    return msgspec.json.encode(value).decode()
