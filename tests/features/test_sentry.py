"""Sentry: failures, traces and check-ins as they reach the transport of the real SDK."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.client import NonRecordingClient
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from packhorse import App, Batch, Cancel, JobFailed, Retry, Snooze, cron, current, every
from packhorse.telemetry.sentry import Sentry
from packhorse.testing import run_until_idle
from tests.features import traced_tasks
from tests.features.factories import SECOND
from tests.features.tracing import with_baggage
from tests.unit.test_redact import SHAPES


class Sent(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.items += [item.payload.json for item in envelope.items if item.payload.json is not None]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Items of a kind: event, transaction or check_in."""
        return [item for item in self.items if item.get("type", "event") == kind]

    @property
    def errors(self) -> list[str]:
        return [each["exception"]["values"][-1]["type"] for each in self.of("event")]


@pytest.fixture
def sent() -> Iterator[Sent]:
    transport = Sent()
    sentry_sdk.init(
        dsn="https://public@sentry.example/1",
        transport=transport,
        traces_sample_rate=1.0,
        default_integrations=False,
        integrations=[LoggingIntegration()],
        auto_session_tracking=False,
    )
    yield transport
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(NonRecordingClient())


@pytest.fixture
async def app(sent, clock):
    async with App("sqlite:///:memory:", clock=clock, integrations=[Sentry()]) as made:
        yield made


async def test_s39_a_final_failure_is_an_event_with_job_task_queue_and_attempt(make, clock, sent):
    app = make(clock=clock, integrations=[Sentry()])

    @app.task(name="pay", queue="pay", attempts=2, backoff=None)
    async def pay(order: str, token: str) -> None:
        raise ValueError(f"{order} was refused")

    job = await pay.enqueue("o-1", token="hush-hush")
    await run_until_idle(app)
    clock.turn(3600 * SECOND)
    await run_until_idle(app)

    [event] = sent.of("event")
    assert event["tags"] == {"job_id": job.id, "task": "pay", "queue": "pay", "attempt": "2"}
    assert event["contexts"]["packhorse"]["arguments"] == {"order": "o-1", "token": "***"}
    assert event["contexts"]["packhorse"]["correlation_id"] == job.id
    [value] = event["exception"]["values"]
    assert (value["type"], value["value"]) == ("ValueError", "o-1 was refused")
    assert value["stacktrace"]["frames"][-1]["function"] == "pay"
    [failure] = (await job.info()).failures[-1:]
    assert event["fingerprint"] == [failure.fingerprint]


async def test_secrets_stay_out_of_messages_variables_and_breadcrumbs(app, sent):
    @app.task(attempts=1)
    async def login(password: str) -> None:
        address = f"https://ann:{password}@shop.example"
        sentry_sdk.add_breadcrumb(message=f"asking {address}", data={"token": password})
        raise ValueError(f"cannot open {address}")

    await login.enqueue("hush-hush")
    await run_until_idle(app)

    [event] = sent.of("event")
    assert event["exception"]["values"][0]["value"] == "cannot open https://***@shop.example"
    assert event["breadcrumbs"]["values"][0]["message"] == "asking https://***@shop.example"
    variables = event["exception"]["values"][0]["stacktrace"]["frames"][-1]["vars"]
    assert variables["address"] == "'https://***@shop.example'"
    frames = event["exception"]["values"][0]["stacktrace"]["frames"]
    kept = [frame.get("vars") for frame in frames]
    assert variables["password"] == "[Filtered]"  # by Sentry itself
    assert "hush" not in str([kept, event["breadcrumbs"], event["contexts"], event.get("extra")])
    assert [frame["in_app"] for frame in frames] == [False] * (len(frames) - 1) + [True]


async def test_no_shape_of_a_secret_is_sent(sent, recorded, clock):
    integrations = [Sentry(), recorded.integration()]
    async with App("sqlite:///:memory:", clock=clock, integrations=integrations) as app:

        @app.task(attempts=1)
        async def work(note: str) -> None:
            sentry_sdk.add_breadcrumb(message=f"looking at {note}")
            raise LookupError(f"nothing is known of {note}")

        for secret in SHAPES.values():
            await work.enqueue(secret)
        await run_until_idle(app)

    everything = json.dumps(sent.items) + "".join(span.to_json() for span in recorded.spans("process default"))
    assert len(sent.of("event")) == len(recorded.spans("process default")) == len(SHAPES)
    assert [name for name, secret in SHAPES.items() if json.dumps(secret[10:-1]).strip('"') in everything] == []


async def test_every_attempt_is_captured_on_request_but_no_signal(sent, clock):
    async with App("sqlite:///:memory:", clock=clock, integrations=[Sentry(every_attempt=True)]) as app:

        @app.task(attempts=2)
        async def fails() -> None:
            raise ValueError

        @app.task(attempts=2)
        async def retries() -> None:
            raise Retry(0) if current().attempt == 1 else ValueError

        @app.task
        async def puts_off() -> None:
            raise Snooze("1h")

        @app.task
        async def cancels() -> None:
            raise Cancel("not wanted")

        for task in (retries, puts_off, cancels):
            await task.enqueue()
        await run_until_idle(app)
        assert sent.errors == ["ValueError"]
        await fails.enqueue()
        await run_until_idle(app)

    finals = [event["contexts"]["packhorse"]["final"] for event in sent.of("event")]
    assert finals == [True, False]


async def test_a_failure_that_is_tried_again_is_not_captured(app, sent):
    @app.task(attempts=2)
    async def work() -> None:
        raise ValueError

    await work.enqueue()
    await run_until_idle(app)

    assert sent.of("event") == []


async def test_a_last_attempt_that_asks_for_another_is_captured(app, sent):
    @app.task(attempts=1)
    async def work() -> None:
        raise Retry

    await work.enqueue()
    await run_until_idle(app)

    assert sent.errors == ["Retry"]


async def test_errors_that_quote_arguments_are_captured_without_their_message(app, sent):
    @app.task
    async def work(number: int) -> None: ...

    await app.queue("default").enqueue(work.name, {"number": "hush"})
    await run_until_idle(app)

    [event] = sent.of("event")
    assert event["contexts"]["packhorse"]["arguments"] == {"number": "hush"}
    assert {value["value"] for value in event["exception"]["values"]} == {""}


async def test_the_transactions_of_sender_and_job_are_one_trace(app, sent):
    @app.task(name="mail", queue="mail")
    async def mail() -> str | None:
        return sentry_sdk.get_traceparent()

    with sentry_sdk.start_transaction(name="request", op="http.server"):
        job = await mail.enqueue()
    await run_until_idle(app)

    request, process = sent.of("transaction")
    [publish] = request["spans"]
    trace = process["contexts"]["trace"]
    assert (publish["op"], publish["description"]) == ("queue.publish", "mail")
    assert publish["data"]["messaging.message.id"] == job.id
    assert (process["transaction"], trace["op"], trace["status"]) == ("mail", "queue.process", "ok")
    assert (trace["trace_id"], trace["parent_span_id"]) == (publish["trace_id"], publish["span_id"])
    assert {name: value for name, value in trace["data"].items() if name.startswith("messaging.")} == {
        "messaging.system": "packhorse",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "messaging.message.body.size": 2,
        "messaging.message.receive.latency": 0,
        "messaging.message.retry.count": 0,
    }


async def test_the_scope_of_an_attempt_ends_with_it(app, sent):
    @app.task(attempts=1)
    def work(number: int) -> None:
        sentry_sdk.set_tag(f"of_{number}", "yes")
        raise ValueError

    for number in range(2):
        await work.enqueue(number)
    await run_until_idle(app)

    own = [{tag for tag in event["tags"] if tag.startswith("of_")} for event in sent.of("event")]
    assert sorted(own, key=str) == [{"of_0"}, {"of_1"}]


async def test_the_messages_of_a_batch_that_die_are_captured(app, sent):
    @app.queue("mail", attempts=1).batch(size=10, wait=0)
    async def together(batch: Batch) -> None:
        first, *_ = batch
        first.dead("nobody lives there")

    await app.queue("mail").enqueue("one")
    await app.queue("mail").enqueue("two")
    await run_until_idle(app)

    assert len(sent.of("event")) == 1
    [transaction] = sent.of("transaction")
    assert transaction["contexts"]["trace"]["data"]["messaging.batch.message_count"] == 2


async def test_a_failure_in_a_child_process_is_captured_with_its_traceback_as_text(sent):
    app = traced_tasks.app
    async with app, app.worker("apart", concurrency=1):
        job = await traced_tasks.apart.enqueue(fails=True)
        with pytest.raises(JobFailed):
            await job.result(timeout=60)

    [event] = sent.of("event")
    assert event["exception"]["values"][0]["value"] == "with token=***"
    assert event["tags"]["job_id"] == job.id
    assert "in apart" in event["contexts"]["packhorse"]["traceback"]
    assert "hush" not in str(event)


async def test_the_baggage_of_both_integrations_travels_together(sent, recorded, clock):
    integrations = [Sentry(), recorded.integration()]
    async with App("sqlite:///:memory:", clock=clock, integrations=integrations) as app:

        @app.task
        async def work() -> str:
            return str(current().headers["baggage"])

        with with_baggage(shop="north"), sentry_sdk.start_transaction(name="request"):
            job = await work.enqueue()
        await run_until_idle(app)

        members = (await job.result()).split(",")
        assert "shop=north" in members
        assert len([member for member in members if member.startswith("sentry-trace_id=")]) == 1


async def test_a_schedule_is_a_monitor_with_a_check_in_at_the_start_and_the_end(app, sent, clock):
    ends = [None, ValueError()]

    @app.schedule(cron("0 3 * * *", tz="Europe/Berlin"), name="Nightly report")
    @app.task(attempts=1)
    async def report() -> None:
        if (error := ends.pop(0)) is not None:
            raise error

    await app.schedules.declare()
    for _ in range(2):
        clock.turn(24 * 3600 * SECOND)
        await app.schedules.fire()
        await run_until_idle(app)

    check_ins = sent.of("check_in")
    assert [each["status"] for each in check_ins] == ["in_progress", "ok", "in_progress", "error"]
    assert {each["monitor_slug"] for each in check_ins} == {"nightly-report"}
    first, second = ({each["check_in_id"] for each in pair} for pair in (check_ins[:2], check_ins[2:]))
    assert (len(first), len(second), first & second) == (1, 1, set())
    assert check_ins[0]["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 3 * * *"},
        "timezone": "Europe/Berlin",
    }
    [event] = sent.of("event")
    assert event["tags"]["schedule"] == "Nightly report"


async def test_a_run_that_was_missed_is_a_check_in_by_the_watch(app, sent, clock):
    @app.schedule(every("1h"), name="hourly", expect_within="10m", catch_up="skip")
    @app.task
    async def work() -> None: ...

    await app.schedules.declare()
    clock.turn(5400 * SECOND)
    await app.schedules.fire()

    [check_in] = sent.of("check_in")
    assert (check_in["monitor_slug"], check_in["status"]) == ("hourly", "missed")
    assert check_in["monitor_config"] == {"schedule": {"type": "interval", "value": 60, "unit": "minute"}}


async def test_a_run_that_was_cancelled_is_missed_when_it_should_have_ended(app, sent, clock):
    @app.schedule(every("90s"), name="often", expect_within="10m")
    @app.task
    async def work() -> None: ...

    await app.schedules.declare()
    clock.turn(90 * SECOND)
    await app.schedules.fire()
    [job] = [each async for each in app.jobs()]
    await app.job(job.id).cancel()
    clock.turn(600 * SECOND)
    await app.schedules.watch()

    [check_in] = sent.of("check_in")
    assert (check_in["status"], check_in["check_in_id"]) == ("missed", job.id.replace("-", ""))
    assert "monitor_config" not in check_in


async def test_monitors_can_be_left_out(sent, clock):
    async with App("sqlite:///:memory:", clock=clock, integrations=[Sentry(monitors=False)]) as app:

        @app.schedule(every("1h"))
        @app.task
        async def work() -> None: ...

        await app.schedules.declare()
        clock.turn(3600 * SECOND)
        await app.schedules.fire()
        await run_until_idle(app)

    assert (len(sent.of("transaction")), sent.of("check_in")) == (1, [])


@pytest.mark.parametrize("initialised", [True, False])
async def test_without_an_address_of_sentry_nothing_is_carried_and_jobs_run(sent, clock, initialised):
    client = sentry_sdk.Client(dsn=None, default_integrations=False) if initialised else NonRecordingClient()
    sentry_sdk.get_global_scope().set_client(client)
    async with App("sqlite:///:memory:", clock=clock, integrations=[Sentry()]) as app:

        @app.task
        async def work() -> list[str]:
            return sorted(current().headers)

        job = await work.enqueue()
        await run_until_idle(app)

        assert await job.result() == ["correlation_id"]
