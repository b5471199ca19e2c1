"""Around tracing: metrics, headers, integrations that fail, and the names of the conventions."""

import asyncio
import importlib
import sqlite3
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.trace import StatusCode

import packhorse
from packhorse import App, current
from packhorse.errors import InvalidOption, MissingExtra, StoreUnavailable
from packhorse.jobs.portal import PORTAL
from packhorse.model import codec
from packhorse.telemetry import semconv
from packhorse.telemetry.integration import Integration
from packhorse.telemetry.otel import OpenTelemetry
from packhorse.testing import run_until_idle
from tests.features.tracing import id_of, parent_of, with_baggage


async def test_metrics_count_what_was_sent_and_consumed(traced, recorded):
    app = traced()

    @app.task(attempts=1)
    async def work(number: int) -> None:
        if not number:
            raise ValueError

    await app.enqueue(*(work.call(number) for number in range(3)))
    await run_until_idle(app)

    metrics = recorded.metrics()
    assert set(metrics) == {
        "messaging.process.duration",
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
    }
    [sent] = metrics["messaging.client.sent.messages"]
    assert (sent.value, sent.attributes) == (
        3,
        {
            "messaging.system": "packhorse",
            "messaging.operation.name": "send",
            "messaging.destination.name": "default",
        },
    )
    consumed = {
        point.attributes.get("error.type"): point.value for point in metrics["messaging.client.consumed.messages"]
    }
    assert consumed == {None: 2, "ValueError": 1}
    assert sum(point.count for point in metrics["messaging.process.duration"]) == 3
    assert metrics["messaging.process.duration"][0].explicit_bounds[0] == 0.005
    assert [point.count for point in metrics["messaging.client.operation.duration"]] == [1]


async def test_an_enqueue_that_fails_says_so_on_its_span(recorded):
    app = App("redis://127.0.0.1:1", integrations=[recorded.integration()])

    @app.task
    async def work() -> None: ...

    with pytest.raises(StoreUnavailable):
        await work.enqueue()

    span = recorded.span("send default")
    assert (span.status.status_code, span.attributes["error.type"].rpartition(".")[2]) == (
        StatusCode.ERROR,
        "StoreUnavailable",
    )


async def test_without_a_tracer_the_context_passes_from_job_to_job(memory):
    seen: list[dict[str, Any]] = []

    @memory.task
    async def second() -> None:
        seen.append(dict(current().headers))

    @memory.task
    async def first() -> None:
        await second.enqueue()

    carried = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=1", "baggage": "shop=north"}
    traced = replace(memory.client.builder.build(first.call()), headers=codec.encode(carried))
    await memory.client.send([traced])
    await run_until_idle(memory)

    assert {name: seen[0][name] for name in carried} == carried


async def test_headers_that_would_be_too_long_travel_without_baggage(traced, recorded):
    app = traced()

    @app.task
    async def work() -> bool:
        return "baggage" in current().headers

    members = {f"member{number}": "x" * 2000 for number in range(4)}
    with with_baggage(**members):
        job = await work.using(headers={"big": "y" * 12_000}).enqueue()
    await run_until_idle(app)

    assert await job.result() is False
    assert parent_of(recorded.span("process default")) == id_of(recorded.span("send default"))


async def test_an_integration_that_fails_harms_no_job_and_is_logged_once(clock, caplog):
    class Broken(Integration):
        def carried(self):
            raise RuntimeError("carried")

        @contextmanager
        def sending(self, _sending):
            yield
            raise RuntimeError("sending")

        @contextmanager
        def running(self, _run):
            raise RuntimeError("running")
            yield

        def failed(self, failure):
            raise RuntimeError("failed")

    async with App("sqlite:///:memory:", clock=clock, integrations=[Broken()]) as app:

        @app.task(attempts=1)
        async def work() -> int:
            return 5

        @app.task(attempts=1)
        async def fails() -> None:
            raise ValueError

        jobs = [await work.enqueue(), await work.enqueue()]
        await fails.enqueue()
        await run_until_idle(app)

        assert [await job.result() for job in jobs] == [5, 5]
    logged = [record.message.split(";")[0] for record in caplog.records if record.name == "packhorse.telemetry"]
    assert sorted(logged) == [f"Broken failed in {name}" for name in ("carried", "failed", "running", "sending")]


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [("otel", "opentelemetry.context", "otel"), ("sentry", "sentry_sdk.crons", "sentry")],
)
def test_an_extra_that_is_not_installed_is_named(monkeypatch, module, missing, extra):
    monkeypatch.delitem(sys.modules, f"packhorse.telemetry.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=rf"packhorse\[{extra}\]"):
        importlib.import_module(f"packhorse.telemetry.{module}")


async def test_a_job_within_a_transaction_of_the_caller_is_traced(tmp_path, recorded):
    app = App(f"sqlite:///{tmp_path}/jobs.db", integrations=[recorded.integration()])

    @app.task
    async def work() -> None: ...

    def view() -> str:
        connection = sqlite3.connect(tmp_path / "jobs.db")
        with connection, recorded.tracer.start_as_current_span("request"):
            job = work.using(within=connection).sync.enqueue()
        connection.close()
        PORTAL.run(app.close())
        PORTAL.stop()
        return str(job.id)

    await app.open()
    job = app.job(await asyncio.to_thread(view))
    await run_until_idle(app)

    assert await job.state() == "done"
    names = ["request", "send default", "process default"]
    assert [parent_of(recorded.span(name)) for name in names[1:]] == [id_of(recorded.span(name)) for name in names[:2]]
    await app.close()


async def test_an_attempt_in_a_transaction_is_traced(tmp_path, recorded):
    app = App(f"sqlite:///{tmp_path}/jobs.db", integrations=[recorded.integration()])

    @app.task(transaction=True)
    async def work() -> None:
        await current().tx.execute("SELECT 1")

    await work.enqueue()
    await run_until_idle(app)
    await app.close()

    assert recorded.span("process default").attributes["packhorse.outcome"] == "done"


def test_what_is_no_integration_and_an_unknown_mode_are_refused():
    with pytest.raises(InvalidOption, match="OpenTelemetry"):
        App("sqlite:///:memory:", integrations=[object()])  # type: ignore[list-item]
    with pytest.raises(InvalidOption, match="auto, parent, link"):
        OpenTelemetry(trace="always")  # type: ignore[arg-type]


def test_the_names_of_the_conventions_stand_in_one_module():
    source = Path(packhorse.__file__).parent
    found = [path.name for path in source.rglob("*.py") if '"messaging.' in path.read_text()]
    assert found == ["semconv.py"]


def test_the_names_are_those_of_the_conventions():
    ours = {value for name, value in vars(semconv).items() if name.isupper() and str(value).startswith("messaging.")}
    theirs = {
        value
        for module in (messaging_attributes, messaging_metrics)
        for name, value in vars(module).items()
        if name.startswith("MESSAGING_")
    }
    assert ours - theirs == {semconv.RECEIVE_LATENCY, semconv.RETRY_COUNT}
