"""Odd cases of alerts: payloads nobody can read, rules that fail, monitors and deaths, names that are not found."""

import msgspec
import pytest

from packhorse import AnyDead, Backlog, Heartbeat, Stuck, log_alerts
from packhorse.alerts import details
from packhorse.alerts.alert import KIND
from packhorse.model.effect import Put
from packhorse.model.job import failure
from packhorse.model.outcome import Dead
from packhorse.model.reason import DeadReason
from packhorse.telemetry.names import EventName
from tests.factories import MINUTE, SECOND, new
from tests.features.alerting import Inbox, fill, fire, kill, look, pass_time
from tests.features.receivers import LOOPBACK, webhook


@pytest.fixture
def inbox():
    return Inbox()


async def test_deaths_that_go_on_for_long_enough_fire_and_a_single_one_does_not(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead(for_="4m", remind="6m")])
    await memory.alerts.declare()
    store = await memory.store()
    await fill(memory, 4)
    clock.turn(SECOND)
    await kill(store, 1)
    await look(memory)
    assert [status.state for status in await memory.alerts.find()] == ["pending"]
    await pass_time(memory, clock, 3 * MINUTE, step=MINUTE)
    await kill(store, 1)
    await pass_time(memory, clock, 3 * MINUTE, step=MINUTE)
    assert [(alert.phase, alert.count) for alert in inbox.alerts] == [("fired", 2)]
    await kill(store, 1)
    await pass_time(memory, clock, 4 * MINUTE, step=MINUTE)
    await kill(store, 1)
    await pass_time(memory, clock, 7 * MINUTE, step=MINUTE)
    assert [(alert.phase, alert.count) for alert in inbox.alerts] == [("fired", 2), ("reminder", 3), ("resolved", 4)]


async def test_arguments_that_cannot_be_read_or_are_large_are_left_out(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead()])
    await memory.alerts.declare()
    store = await memory.store()
    large = msgspec.json.encode({"text": "x" * details.MAX_DATA_BYTES})
    payloads = {
        "unreadable": b"[1",
        "list": b"[1]",
        "large": large,
        "none": b"{}",
    }
    await store.jobs.enqueue([new(task, queue="email", payload=payload) for task, payload in payloads.items()])
    clock.turn(SECOND)
    await kill(store, 4)
    await look(memory)
    assert {alert.task: alert.data for alert in inbox.alerts} == dict.fromkeys(payloads)


async def test_the_text_of_a_validation_error_is_left_out_because_it_quotes_arguments(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead()])
    await memory.alerts.declare()
    await fill(memory, 1)
    clock.turn(SECOND)
    quoting = failure("pydantic_core.ValidationError", "input_value='hunter2'")
    await kill(await memory.store(), 1, outcome=Dead(DeadReason.FINAL, quoting))
    await look(memory)
    assert inbox.last.error == "pydantic_core.ValidationError"


async def test_an_alert_about_deaths_that_is_silenced_is_sent_when_the_silence_ends(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead()])
    await memory.alerts.declare()
    await memory.alerts.silence(task="send", for_="1m")
    await fill(memory, 1)
    clock.turn(SECOND)
    await kill(await memory.store(), 1)
    await pass_time(memory, clock, 50 * SECOND)
    assert inbox.alerts == []
    await pass_time(memory, clock, 20 * SECOND)
    assert inbox.seen == [("any_dead", "fired")]


async def test_a_rule_that_fails_stops_no_other(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Stuck(), Backlog("email", ready=0)])
    failed = []
    memory.telemetry.on(lambda name, fields: failed.append(fields["detail"]), EventName.DUTY_FAILED)
    await memory.alerts.declare()
    records = (await memory.store()).records
    [record] = await records.get(KIND, ["stuck"])
    rule = msgspec.json.decode(record.value)
    rule["spec"] |= {"kind": "backlog", "above": 0}
    wrong = msgspec.json.encode({**rule, "to": ["x" * 600]})  # longer than the id of a delivery may be
    await records.put([Put(KIND, "stuck", wrong, due=record.due)])
    await fill(memory, 1)
    clock.turn(SECOND)
    await look(memory)
    assert failed == ["evaluate alert stuck"]
    assert inbox.seen == [("backlog:email", "fired")]


async def test_a_monitor_is_not_called_while_a_critical_alert_about_deaths_fires(memory, clock, receiver):
    beat = Heartbeat(f"http://localhost:{receiver.port}/ping", ports=[receiver.port], **LOOPBACK)
    memory.alerts(to=[beat, log_alerts], rules=[AnyDead(severity="critical")])
    await memory.alerts.declare()
    await pass_time(memory, clock, 2 * MINUTE)
    called = len(receiver.requests)
    assert called
    await fill(memory, 1)
    await kill(await memory.store(), 1)
    await pass_time(memory, clock, 4 * MINUTE)
    assert len(receiver.requests) == called
    await pass_time(memory, clock, 4 * MINUTE)
    assert len(receiver.requests) > called


async def test_a_name_that_is_not_found_is_tried_again(memory, clock, receiver):
    target = webhook(receiver)

    async def resolve(host, port):
        raise OSError("no such host")

    target.client._resolve = resolve
    memory.alerts(to=[target], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [delivery] = await memory.alerts.deliveries()
    assert (delivery.state, delivery.attempts) == ("scheduled", 1)
    assert "the name localhost was not found" in delivery.failures[0].error
