"""Webhooks: signed, in order, tried for a day, to the address that was judged, whatever the receiver answers."""

import json

import pytest

from packhorse import Backlog, Webhook, verify_webhook
from packhorse.alerts import deliver as delivering
from packhorse.errors import InvalidInput, InvalidSignature
from tests.factories import MINUTE, SECOND
from tests.features.alerting import Inbox, deliver, fill, fire, look, pass_time, take_away
from tests.features.receivers import NEW, certificate, http_receiver, webhook

OLD = "whsec_" + "b2xkLXNlY3JldC1vbGQtc2VjcmV0"


async def test_a_webhook_is_posted_and_signed_by_every_live_secret(memory, clock, receiver):
    memory.alerts(to=[webhook(receiver, secret=[NEW, OLD])], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [(line, headers, body)] = receiver.requests
    assert line == "POST /alerts?team=ops HTTP/1.1"
    assert headers["Host"] == f"localhost:{receiver.port}"
    assert headers["Content-Type"] == "application/json"
    now = clock.now()
    for secret in (NEW, OLD, [OLD, "whsec_" + "YW5vdGhlci1zZWNyZXQtYW5vdGhlcg=="]):
        alert = verify_webhook(body, headers, secret, now=now)
    assert alert.message == "Queue email has 1 ready job, more than 0"
    assert json.loads(body) == {
        "type": "backlog", "phase": "fired", "severity": "warning", "message": alert.message, "rule": "backlog:email",
        "fired_at": alert.fired_at, "count": 1, "queue": "email",
    }  # fmt: skip
    [delivery] = await memory.alerts.deliveries()
    assert (delivery.state, delivery.status, delivery.answer, delivery.attempts) == ("done", 200, "thanks", 1)
    assert headers["webhook-id"] == delivery.id

    for wrong in (
        lambda: verify_webhook(body + b" ", headers, NEW, now=now),
        lambda: verify_webhook(body, headers, "whsec_" + "c29tZXRoaW5nLWVsc2UtYWx0b2dldGhlcg==", now=now),
        lambda: verify_webhook(body, {**headers, "webhook-id": "other"}, NEW, now=now),
        lambda: verify_webhook(body, headers, NEW, now=now + 6 * MINUTE),
        lambda: verify_webhook(body, headers, NEW, now=now - 6 * MINUTE),
        lambda: verify_webhook(body, {**headers, "webhook-timestamp": "soon"}, NEW, now=now),
        lambda: verify_webhook(body, {**headers, "webhook-signature": "v1,x v1a,é"}, NEW, now=now),
        lambda: verify_webhook(body, {}, NEW, now=now),
    ):
        with pytest.raises(InvalidSignature):
            wrong()


def test_a_signature_is_that_of_standard_webhooks():
    """The example of the specification's reference libraries."""
    from packhorse.alerts.signature import keys, signature_headers

    body = b'{"test": 2432232314}'
    headers = signature_headers(
        keys("whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body
    )
    assert headers["webhook-signature"] == "v1," + "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "plain", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", []])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret):
    with pytest.raises(InvalidInput) as refused:
        Webhook("https://example.com/x", secret=secret)
    assert "plain" not in str(refused.value)


async def test_over_tls_the_certificate_must_be_that_of_the_name(memory, clock, tmp_path):
    both = certificate(tmp_path)
    async with http_receiver(both) as receiver:
        address, options = (
            f"https://localhost:{receiver.port}/x",
            {"allow": ["127.0.0.1/32", "::1"], "ports": [receiver.port]},
        )
        memory.alerts(
            to=[Webhook(address, name="trusting", ca_file=str(tmp_path / "both.crt"), **options),
                Webhook(address, name="strict", **options)],
            rules=[Backlog("email", ready=0)],
        )  # fmt: skip
        await fire(memory, clock)
        assert len(receiver.requests) == 1
    deliveries = {each.target: each for each in await memory.alerts.deliveries()}
    assert deliveries["trusting"].state == "done"
    assert "CERTIFICATE_VERIFY_FAILED" in deliveries["strict"].failures[0].error


async def test_a_receiver_that_is_down_for_an_hour_gets_everything_in_order(app, clock, receiver):
    inbox = Inbox()
    app.alerts(to=[webhook(receiver), inbox], rules=[Backlog("email", ready=0)])
    receiver.answers(500, b"down")
    await app.alerts.declare()
    await fill(app, 1)
    await pass_time(app, clock, 30 * MINUTE, step=MINUTE)
    await take_away(app, 1)
    await pass_time(app, clock, 30 * MINUTE, step=MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired", "resolved"]
    refused = len(receiver.requests)
    assert refused == 4  # at 0 s, 5 s, 5 m and 30 m
    receiver.answers(200)
    await pass_time(app, clock, 90 * MINUTE, step=5 * MINUTE)
    phases = [json.loads(body)["phase"] for _, _, body in receiver.requests]
    assert phases == ["fired"] * (refused + 1) + ["resolved"]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 2
    [resolved, fired] = [each for each in await app.alerts.deliveries() if each.target.startswith("webhook")]
    assert (fired.phase, fired.state, fired.attempts, resolved.phase) == ("fired", "done", 5, "resolved")
    assert [attempt.error for attempt in fired.failures] == [
        "The alert was not delivered: webhook:localhost answered 500: down"
    ] * 4


async def test_a_delivery_is_tried_ten_times_over_a_day_and_then_given_up(memory, clock, receiver):
    receiver.answers(500)
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    begun, moments = clock.now(), list[int]()
    for _ in range(25 * 60):
        moments += [clock.now() - begun] * (len(receiver.requests) - len(moments))
        clock.turn(MINUTE)
        await look(memory)
    minutes = [round(moment / MINUTE) for moment in moments]
    assert minutes == [0, 1, 6, 31, 121, 301, 601, 841, 1201, 1441]
    [delivery] = await memory.alerts.deliveries()
    assert (delivery.state, delivery.attempts) == ("dead", 10)


async def test_a_busy_receiver_is_asked_again_when_it_wants_to_be(memory, clock, receiver):
    receiver.answers(503, Retry_After="600")
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    await pass_time(memory, clock, 9 * MINUTE, step=MINUTE)
    assert len(receiver.requests) == 1
    receiver.answers(429, Retry_After="1200")
    await pass_time(memory, clock, 2 * MINUTE, step=MINUTE)
    assert len(receiver.requests) == 2
    await pass_time(memory, clock, 18 * MINUTE, step=MINUTE)
    assert len(receiver.requests) == 2
    receiver.answers(200)
    await pass_time(memory, clock, 3 * MINUTE, step=MINUTE)
    assert [each.state for each in await memory.alerts.deliveries()] == ["done"]


async def test_a_target_that_is_gone_gets_nothing_more_until_it_accepts_a_test(memory, clock, receiver):
    target = webhook(receiver)
    memory.alerts(to=[target], rules=[Backlog(ready=0)])
    receiver.answers(410, b"moved away")
    await fire(memory, clock)
    await fill(memory, 1, queue="other")
    await pass_time(memory, clock, MINUTE)
    assert len(receiver.requests) == 1
    assert {(each.state, each.answer) for each in await memory.alerts.deliveries()} == {
        ("dead", ""), ("done", "the target answered 410 Gone and is disabled"),
    }  # fmt: skip
    receiver.answers(200)
    job = await memory.alerts.test(target)
    await deliver(memory)
    assert (await job.info()).state == "done"
    await fill(memory, 1, queue="third")
    await pass_time(memory, clock, MINUTE)
    assert [json.loads(body)["phase"] for _, _, body in receiver.requests] == ["fired", "test", "fired"]


async def test_redirects_are_not_followed(memory, clock, receiver):
    receiver.answers(307, Location="http://localhost:1/elsewhere")
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [delivery] = await memory.alerts.deliveries()
    assert (delivery.state, delivery.attempts) == ("scheduled", 1)
    assert len(receiver.requests) == 1


async def test_no_proxy_of_the_environment_is_used(memory, clock, receiver, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://localhost:1")
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    assert len(receiver.requests) == 1


ANSWERS = {
    "a long body": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 300_000, "done"),
    "a body in chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", "done"),
    "an interim answer before": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "done"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", "scheduled"),
    "nothing": (b"", "scheduled"),
    "an endless line": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "scheduled"),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000 + b"\r\n", "scheduled"),
    "a chunk of no size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "scheduled"),
    "a status of letters": (b"HTTP/1.1 abc\r\n\r\n", "scheduled"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "state"), ANSWERS.values(), ids=ANSWERS)
async def test_any_answer_is_taken_as_what_it_is(memory, clock, receiver, answer, state):
    receiver.answer = answer
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [delivery] = await memory.alerts.deliveries()
    assert delivery.state == state
    assert len(delivery.answer) <= 1024


async def test_a_receiver_that_never_answers_is_given_up_for_now(memory, clock, receiver, monkeypatch):
    monkeypatch.setattr(delivering, "SEND_TIMEOUT_SECONDS", 0.1)
    receiver.answer = b"never"
    memory.alerts(to=[webhook(receiver)], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [delivery] = await memory.alerts.deliveries()
    assert (delivery.state, delivery.failures[0].error) == ("scheduled", "no answer within 0.1 s")


async def test_an_address_that_was_refused_once_is_judged_again_at_the_next_attempt(memory, clock, receiver):
    target = webhook(receiver)
    answers = [["10.0.0.1"], ["127.0.0.1"]]

    async def resolve(host, port):
        return answers.pop(0)

    target.client._resolve = resolve
    memory.alerts(to=[target], rules=[Backlog("email", ready=0)])
    await fire(memory, clock)
    [delivery] = await memory.alerts.deliveries()
    assert "10.0.0.1 is not public" in delivery.failures[0].error
    assert receiver.requests == []
    await pass_time(memory, clock, 10 * SECOND)
    assert len(receiver.requests) == 1
