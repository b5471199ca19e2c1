"""OpenTelemetry: spans of senders and consumers, metrics, and the context that travels with jobs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, get_args

from packhorse.errors import InvalidOption, MissingExtra
from packhorse.model import limits
from packhorse.model.exception_text import kind
from packhorse.model.ids import id_text
from packhorse.model.job import Failure, NewJob
from packhorse.model.lease import Lease
from packhorse.model.trace_context import text_headers
from packhorse.telemetry import semconv
from packhorse.telemetry.integration import Integration, JobRun, Sending, shown_message
from packhorse.telemetry.redact import redacted

try:
    import opentelemetry.context as otel_context
    import opentelemetry.trace as otel_trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise MissingExtra("OpenTelemetry", "otel") from missing

PARENT_MAX_AGE_US = 60 * limits.SECOND  # a job that starts later gets a trace of its own, with a link

TraceMode = Literal["auto", "parent", "link"]

_PROPAGATOR: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


class OpenTelemetry(Integration):
    """Spans ``send {queue}`` and ``process {queue}``, with the metrics of both.

    ``trace`` says how the span of a job belongs to that of its sender: as its child (``parent``), in a trace of its own
    with a link (``link``), or as its child if it starts within 60 seconds on its first try, else with a link (``auto``).
    Runs of schedules always have a trace of their own. Without providers, the global ones are used.
    """

    def __init__(
        self,
        *,
        trace: TraceMode = "auto",
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        if trace not in get_args(TraceMode):
            raise InvalidOption("trace", trace, f"give one of {', '.join(get_args(TraceMode))}")
        self._trace = trace
        self._tracer = otel_trace.get_tracer(
            semconv.PACKHORSE, tracer_provider=tracer_provider, schema_url=semconv.SCHEMA
        )
        meter = get_meter(semconv.PACKHORSE, meter_provider=meter_provider, schema_url=semconv.SCHEMA)
        buckets = semconv.DURATION_BUCKETS
        self._process_duration = meter.create_histogram(
            semconv.PROCESS_DURATION, "s", "Duration of attempts", explicit_bucket_boundaries_advisory=buckets
        )
        self._operation_duration = meter.create_histogram(
            semconv.OPERATION_DURATION, "s", "Duration of enqueues", explicit_bucket_boundaries_advisory=buckets
        )
        self._sent = meter.create_counter(semconv.SENT_MESSAGES, "{message}", "Jobs given to the store")
        self._consumed = meter.create_counter(semconv.CONSUMED_MESSAGES, "{message}", "Jobs given to their functions")

    def carried(self) -> Mapping[str, str]:
        """The context of the current span, and the current baggage."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier

    @contextmanager
    def sending(self, sending: Sending) -> Iterator[None]:
        """A span of the kind PRODUCER around the call that stores jobs."""
        about = _about(semconv.SEND, sending.queue)
        error_type: dict[str, str] = {}
        with self._span(SpanKind.PRODUCER, about | _messages(sending.jobs), ()) as span:
            try:
                yield
            except BaseException as error:
                error_type[semconv.ERROR_TYPE] = kind(error)
                span.set_attributes(error_type)
                span.set_status(Status(StatusCode.ERROR, shown_message(kind(error), str(error))))
                raise
            finally:
                metric = _for_metrics(about) | error_type
                self._operation_duration.record(sending.duration / limits.SECOND, metric)
                for queue, count in _counts(sending.jobs).items():
                    self._sent.add(count, metric | {semconv.DESTINATION: queue})

    @contextmanager
    def running(self, run: JobRun) -> Iterator[None]:
        """A span of the kind CONSUMER around an attempt, or around those of a batch."""
        about = _about(semconv.PROCESS, run.queue)
        contexts = [_PROPAGATOR.extract(text_headers(lease.headers)) for lease in run.leases]
        senders = [otel_trace.get_current_span(context).get_span_context() for context in contexts]
        links = [Link(sender) for sender in senders if sender.is_valid]
        context = otel_context.Context() if len(contexts) > 1 else contexts[0]
        if len(contexts) == 1 and self._is_child(run):
            links = []
        else:
            context = otel_trace.set_span_in_context(otel_trace.INVALID_SPAN, context)
        token = otel_context.attach(context)
        try:
            with self._span(SpanKind.CONSUMER, about | _messages(run.leases), links) as span:
                yield
                self._end(run, span, about)
        finally:
            otel_context.detach(token)

    @contextmanager
    def continued(self, headers: Mapping[str, str]) -> Iterator[None]:
        """The span of the worker is current in the child process too."""
        token = otel_context.attach(_PROPAGATOR.extract(headers))
        try:
            yield
        finally:
            otel_context.detach(token)

    def _span(self, kind: SpanKind, about: Mapping[str, Any], links: Sequence[Link]) -> Any:
        name = " ".join(str(about[part]) for part in (semconv.OPERATION_NAME, semconv.DESTINATION) if part in about)
        return self._tracer.start_as_current_span(
            name, kind=kind, attributes=about, links=links, record_exception=False, set_status_on_exception=False
        )

    def _is_child(self, run: JobRun) -> bool:
        [lease] = run.leases
        if self._trace == "link" or "schedule" in text_headers(lease.headers):
            return False
        soon = run.began - lease.enqueued_at <= PARENT_MAX_AGE_US
        return self._trace == "parent" or (soon and lease.attempt == 1 and not lease.lost)

    def _end(self, run: JobRun, span: Span, about: Mapping[str, Any]) -> None:
        metric = _for_metrics(about)
        if (failure := run.failure) is not None:
            metric |= {semconv.ERROR_TYPE: failure.type}
            _fail(span, failure)
        outcomes = {type(each.outcome).__name__.lower() for each in run.settlements if each is not None}
        if len(outcomes) == 1:
            span.set_attribute(semconv.OUTCOME, outcomes.pop())
        self._process_duration.record(run.duration / limits.SECOND, metric)
        self._consumed.add(len(run.leases), metric)


def _fail(span: Span, failure: Failure) -> None:
    message = shown_message(failure.type, failure.message)
    span.set_attribute(semconv.ERROR_TYPE, failure.type)
    span.set_status(Status(StatusCode.ERROR, message))
    event = {semconv.EXCEPTION_TYPE: failure.type}
    if message:
        event |= {semconv.EXCEPTION_MESSAGE: message, semconv.EXCEPTION_STACKTRACE: redacted(failure.traceback)}
    span.add_event(semconv.EXCEPTION_EVENT, event)


def _about(operation: str, queue: str | None) -> dict[str, Any]:
    about = {
        semconv.SYSTEM: semconv.PACKHORSE,
        semconv.OPERATION_NAME: operation,
        semconv.OPERATION_TYPE: operation,
    }
    return about if queue is None else {**about, semconv.DESTINATION: queue}


def _messages(jobs: Sequence[NewJob | Lease]) -> dict[str, Any]:
    """The attributes of one job, or of several."""
    if len(jobs) != 1:
        return {semconv.BATCH_COUNT: len(jobs)}
    [job] = jobs
    about = {
        semconv.MESSAGE_ID: id_text(job.id),
        semconv.CONVERSATION_ID: text_headers(job.headers).get("correlation_id", id_text(job.id)),
        semconv.BODY_SIZE: len(job.payload),
        semconv.TASK: job.task,
    }
    return {**about, semconv.ATTEMPT: job.attempt} if isinstance(job, Lease) else about


def _counts(jobs: Sequence[NewJob]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.queue] = counts.get(job.queue, 0) + 1
    return counts


def _for_metrics(about: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of measurements: without the operation type, which the conventions leave to spans."""
    return {name: value for name, value in about.items() if name != semconv.OPERATION_TYPE}
