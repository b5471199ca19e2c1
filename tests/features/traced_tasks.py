"""An app that is traced, with a task for child processes, which load this module as well."""

from typing import Any

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from packhorse import App, current
from packhorse.telemetry.otel import OpenTelemetry
from packhorse.telemetry.sentry import Sentry

exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
app = App("sqlite:///:memory:", integrations=[OpenTelemetry(tracer_provider=provider), Sentry()])


@app.task(name="apart", queue="apart", run="process", attempts=1)
def apart(*, fails: bool) -> dict[str, Any]:
    if fails:
        raise ValueError("with token=hush-hush")
    span = trace.get_current_span().get_span_context()
    return {"trace": span.trace_id, "span": span.span_id, "baggage": dict(baggage.get_all()), "id": current().job_id}
