"""Other targets of alerts: the log, e-mail, Slack, a monitor; and what one target means to others."""

import json
import logging

import pytest

from packhorse import Backlog, Email, Heartbeat, LogTarget, NoWorker, SlackWebhook, Webhook, log_alerts, verify_webhook
from packhorse.errors import AddressRefused, InvalidInput
from packhorse.testing import run_until_idle
from tests.factories import HOUR, MINUTE, SECOND
from tests.features.alerting import Inbox, deliver, fill, fire, look, pass_time, take_away
from tests.features.receivers import LOOPBACK, NEW, smtp_receiver, webhook


async def test_a_target_that_fails_harms_no_job_and_no_other_target(memory, clock, receiver):
    async def broken(alert):
        raise RuntimeError("password=hunter2")

    inbox = Inbox()
    memory.alerts(to=[broken, Inbox("first"), webhook(receiver), inbox], rules=[Backlog("email", ready=0)])

    @memory.task(queue="email")
    async def send() -> str:
        return "sent"

    await memory.alerts.declare()
    job = await send.enqueue()
    await pass_time(memory, clock, 30 * SECOND)
    await run_until_idle(await memory.store(), memory.registry, clock=clock)
    assert await job.result(timeout=5) == "sent"
    assert [alert.phase for alert in inbox.alerts] == ["fired"]
    assert len(receiver.requests) == 1
    [failed] = [each for each in await memory.alerts.deliveries() if each.state != "done"]
    assert failed.target.endswith("broken")
    assert failed.failures[0].error == "password=***"


async def test_a_target_that_no_process_knows_is_waited_for_a_day(make, clock):
    knows, other = make(clock=clock), make(clock=clock)
    knows.alerts(to=[Inbox("pager")], rules=[Backlog("email", ready=0)])
    other.alerts(to=[Inbox("elsewhere")], rules=[Backlog("other", ready=0)])
    await knows.alerts.declare()
    await fill(knows, 1)
    await pass_time(other, clock, MINUTE)
    [delivery] = await other.alerts.deliveries()
    assert (delivery.target, delivery.state, delivery.attempts) == ("pager", "scheduled", 0)
    clock.turn(25 * HOUR)
    await look(other)
    [delivery] = await other.alerts.deliveries()
    assert delivery.state == "dead"
    assert "No process knew the target pager" in delivery.failures[-1].error


async def test_a_process_that_knows_the_target_takes_the_delivery(make, clock):
    inbox = Inbox("pager")
    knows, other = make(clock=clock), make(clock=clock)
    knows.alerts(to=[inbox], rules=[Backlog("email", ready=0)])
    other.alerts(to=[Inbox("elsewhere")], rules=[Backlog("other", ready=0)])
    await knows.alerts.declare()
    await fill(knows, 1)
    await pass_time(other, clock, MINUTE)
    await pass_time(knows, clock, MINUTE)
    assert inbox.seen == [("backlog:email", "fired")]


async def test_the_log_is_a_target(memory, clock, caplog):
    caplog.set_level(logging.INFO, "packhorse.alerts")
    memory.alerts(to=[log_alerts, LogTarget("second")], rules=[NoWorker(for_=0)])
    await fire(memory, clock)
    lines = [
        (record.levelname, record.getMessage(), record.queue)
        for record in caplog.records
        if record.name == "packhorse.alerts"
    ]
    assert lines == [("CRITICAL", "fired: Queue email has jobs to run and no worker [no_worker]", "email")] * 2


async def test_slack_gets_text(memory, clock, receiver):
    slack = SlackWebhook(f"http://localhost:{receiver.port}/services/T/B", ports=[receiver.port], **LOOPBACK)
    memory.alerts(to=[slack], rules=[Backlog("a<b>&c", ready=0)])
    await memory.alerts.declare()
    await fill(memory, 1, queue="a<b>&c")
    await pass_time(memory, clock, 30 * SECOND)
    [(_, headers, body)] = receiver.requests
    assert json.loads(body) == {"text": "*fired* (warning) Queue a&lt;b&gt;&amp;c has 1 ready job, more than 0"}
    assert "webhook-signature" not in headers


async def test_e_mail_is_sent_by_smtp(memory, clock):
    async with smtp_receiver() as server:
        mail = Email(
            "ops@example.com",
            "lead@example.com",
            sender="jobs@example.com",
            host="localhost",
            port=server.port,
            security="plain",
        )
        memory.alerts(to=[mail], rules=[Backlog("email", ready=0)])
        await fire(memory, clock)
        [text] = server.mails
        assert "Subject: [fired] Queue email has 1 ready job, more than 0" in text
        assert "To: ops@example.com, lead@example.com" in text
        assert "Queue: email" in text
        server.refuses = True
        clock.turn(SECOND)
        await memory.alerts.test("email")
        await deliver(memory)
    [test, first] = await memory.alerts.deliveries()
    assert (first.state, test.state) == ("done", "dead")
    assert "did not take the e-mail" in test.failures[0].error


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Email(sender="a@b.c", host="h"),
        lambda: Email("nobody", sender="a@b.c", host="h"),
        lambda: Email("a@b.c\r\nBcc: x@y.z", sender="a@b.c", host="h"),
        lambda: Email("a@b.c", sender="a@b.c", host="h", security="none"),  # type: ignore[arg-type]
        lambda: Webhook("http://example.com/x"),
        lambda: Webhook("https://10.0.0.1/x"),
        lambda: Heartbeat("https://example.com/x", every="1s"),
    ],
)
def test_what_makes_no_sense_as_a_target_is_refused_when_it_is_made(wrong):
    with pytest.raises(InvalidInput):
        wrong()


async def test_a_monitor_is_called_while_the_fleet_is_well_and_not_while_work_has_no_worker(memory, clock, receiver):
    beat = Heartbeat(f"http://localhost:{receiver.port}/ping", every="1m", ports=[receiver.port], **LOOPBACK)
    memory.alerts(to=[beat, log_alerts], rules=[Backlog("imports", ready=0, severity="critical")])
    await memory.alerts.declare()
    await pass_time(memory, clock, 5 * MINUTE)
    assert len(receiver.requests) in (5, 6)
    assert {line for line, _, _ in receiver.requests} == {"GET /ping HTTP/1.1"}
    await fill(memory, 1)
    before = len(receiver.requests)
    await pass_time(memory, clock, 5 * MINUTE)
    assert len(receiver.requests) == before
    await take_away(memory, 1)
    await pass_time(memory, clock, 2 * MINUTE)
    assert len(receiver.requests) > before


async def test_a_monitor_that_does_not_answer_is_not_called_again_for_the_same_minute(memory, clock, receiver):
    receiver.answers(500)
    beat = Heartbeat(f"http://localhost:{receiver.port}/ping", every="1m", ports=[receiver.port], **LOOPBACK)
    memory.alerts(to=[beat, log_alerts], rules=[Backlog("x")])
    await memory.alerts.declare()
    await pass_time(memory, clock, 3 * MINUTE)
    assert len(receiver.requests) in (3, 4)


async def test_a_test_goes_through_the_path_of_alerts_and_names_of_no_target_are_refused(memory, clock, receiver):
    memory.alerts(to=[webhook(receiver, secret=NEW)])
    job = await memory.alerts.test("webhook:localhost")
    await deliver(memory)
    assert (await job.info()).state == "done"
    [(_, headers, body)] = receiver.requests
    assert verify_webhook(body, headers, NEW, now=clock.now()).phase == "test"
    with pytest.raises(InvalidInput, match="there is no such target"):
        await memory.alerts.test("pager")
    assert [entry.action async for entry in memory.audit] == ["alert test"]


def test_the_address_of_a_target_is_not_shown():
    assert "T0KEN" not in repr(SlackWebhook("https://hooks.slack.com/services/T0KEN"))
    with pytest.raises(AddressRefused) as refused:
        Webhook("https://me:T0KEN@example.com/T0KEN")
    assert "T0KEN" not in str(refused.value)
