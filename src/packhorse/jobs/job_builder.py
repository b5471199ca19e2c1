"""Builds jobs from calls: merges options, makes ids, writes headers."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from packhorse.engine.attempt import CURRENT_ATTEMPT
from packhorse.engine.context import context_of
from packhorse.jobs.call import Call
from packhorse.jobs.metadata import NO_METADATA, JobMetadata, ResultBinding
from packhorse.jobs.options import NO_OPTIONS, CallOptions, OptionLevels, Unique
from packhorse.model import codec, limits
from packhorse.model.codec import Codec, JobIdentity
from packhorse.model.ids import JobId, chosen_id, id_text, new_id
from packhorse.model.job import EMPTY, NewJob, StoredJob, UniqueKey
from packhorse.model.trace_context import passed_on

T = TypeVar("T")

UNIQUE_KEY_MAX = limits.KEY - limits.NAME - 1  # bytes; longer keys are stored by their hash

_CORRELATION_ID: ContextVar[str | None] = ContextVar("packhorse_correlation", default=None)


@contextmanager
def correlated(correlation_id: str) -> Iterator[None]:
    """Give all jobs that are enqueued inside this id, so that one search finds the whole chain."""
    limits.key("correlation id", correlation_id)
    token = _CORRELATION_ID.set(correlation_id)
    try:
        yield
    finally:
        _CORRELATION_ID.reset(token)


class JobBuilder:
    """Builds the jobs of an app."""

    def __init__(self, namespace: str, codec: Codec, levels: OptionLevels) -> None:
        self.namespace, self.levels, self._codec = namespace, levels, codec

    def build(
        self,
        call: Call[Any],
        *,
        id: JobId | None = None,
        parent: JobId | None = None,
        children: int = 0,
        chain: JobId | None = None,
        results: ResultBinding | None = None,
    ) -> NewJob:
        """Build the job of a call; in a plan, with its parent and children and the results it waits for.

        ``chain`` is the job whose id is the correlation id, unless the call or its surroundings give another.
        """
        target = call.target
        options = call.options.over(target.call_options)
        queue = options.queue or "default"
        job = (id or new_id()) if options.id is None else chosen_id(self.namespace, options.id)
        payload = call.payload
        if not self._codec.passes(payload):
            payload = self._codec.close(payload, JobIdentity(job, target.name))
        priority = self.levels.priority(queue, target.options, options.job)
        headers = self._headers(options, chain, results)
        if options.plain and parent is None and not children:
            return NewJob(id=job, task=target.name, queue=queue, payload=payload, headers=headers, priority=priority)
        return NewJob(
            id=job,
            task=target.name,
            queue=queue,
            payload=payload,
            headers=headers,
            tenant=options.tenant,
            priority=priority,
            delay=options.delay,
            at=options.at,
            lane=options.key,
            lane_limit=self.levels.lane_limit(queue),
            parent=parent,
            children=children,
            unique=None if options.unique is None else _unique(call, options.unique),
        )

    def trace_headers(self) -> dict[str, Any]:
        """The headers by which jobs continue the trace of the calling code."""
        attempt = CURRENT_ATTEMPT.get(None)
        return {} if attempt is None else passed_on(context_of(attempt).headers)

    def _headers(self, options: CallOptions, chain: JobId | None, results: ResultBinding | None) -> bytes:
        """Write the headers as they are stored; a job that begins a chain of its own has no correlation id there."""
        attempt, correlation_id = CURRENT_ATTEMPT.get(None), _CORRELATION_ID.get()
        if options.plain and attempt is None and correlation_id is None and chain is None and results is None:
            return EMPTY
        metadata = NO_METADATA
        if options.id is not None or results is not None or options.job is not NO_OPTIONS:
            metadata = JobMetadata(id=options.id, options=options.job, results=results)
        running = None if attempt is None else context_of(attempt)
        correlation_id = (
            options.correlation_id or correlation_id or (running.correlation_id if running is not None else None)
        )
        if correlation_id is None and chain is not None:
            correlation_id = id_text(chain)
        named = {
            "correlation_id": correlation_id,
            "tenant": options.tenant,
            "user": options.user,
            "packhorse": metadata if metadata != NO_METADATA else None,
        }
        if running is not None:
            named |= passed_on(running.headers)
        return codec.encode({**options.headers, **{name: value for name, value in named.items() if value is not None}})

    def with_argument(self, job: NewJob, name: str, value: msgspec.Raw) -> NewJob:
        """Give a job one more argument."""
        about = JobIdentity(job.id, job.task)
        payload = set_argument(self._codec.open(job.payload, about), name, value)
        return msgspec.structs.replace(job, payload=self._codec.close(payload, about))

    def close_payload(self, payload: bytes, job: JobId, task: str) -> bytes:
        """Give the stored form of a payload."""
        return self._codec.close(payload, JobIdentity(job, task))

    def open_payload(self, job: StoredJob, kind: type[T]) -> T:
        """Decode what a stored job was enqueued with."""
        return codec.decode(self._codec.open(job.payload, JobIdentity(job.id, job.task)), kind)


def set_argument(payload: bytes, name: str, value: msgspec.Raw) -> bytes:
    """Add an argument to stored ones."""
    arguments = codec.decode(payload, dict[str, msgspec.Raw])
    arguments[name] = value
    return msgspec.json.encode(arguments)


def _unique(call: Call[Any], unique: Unique) -> UniqueKey:
    given = call.payload if unique.key is None else unique.key.encode()
    key = unique.key if unique.key is not None and len(given) <= UNIQUE_KEY_MAX else sha256(given).hexdigest()
    return unique.stored(f"{call.target.name}:{key}")
