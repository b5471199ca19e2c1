"""Scheduled runs that go wrong are one alert for each schedule, and all other schedules run on."""

import pytest

from packhorse import Missed, cron, every
from packhorse.schedules.failure_events import failed
from packhorse.testing import TurnedClock, run_until_idle
from tests.factories import HOUR, MINUTE, SECOND
from tests.features.alerting import Inbox, look
from tests.features.scheduling import BEGIN, begin, elsewhere, ticks


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


@pytest.fixture
def inbox():
    return Inbox()


async def work(app, clock, duration, step=MINUTE):
    """Let time pass as a worker of the app sees it."""
    for _ in range(duration // step):
        clock.turn(step)
        await app.schedules.fire()
        await run_until_idle(await app.store(), app.registry, clock=clock, on_dead=failed)
        await app.schedules.watch()
        await look(app)


async def test_s48_a_schedule_that_raises_is_one_alert_and_it_and_all_others_run_on(app, clock, inbox):
    app.alerts(to=[inbox])
    ran, broken = [], True

    @app.schedule(cron("*/5 * * * *"), name="health-check")
    @app.task(attempts=1)
    async def check() -> None:
        ran.append("check")
        if broken:
            raise ConnectionError("database is away: postgresql://shop:hunter2@db/shop")

    @app.schedule(every("10m"), name="aggregate")
    @app.task
    async def aggregate() -> None:
        ran.append("aggregate")

    await app.schedules.declare()
    await app.alerts.declare()
    await work(app, clock, 21 * MINUTE, step=3 * MINUTE)
    assert (ran.count("check"), ran.count("aggregate")) == (4, 2)
    alerts = [alert for alert in inbox.alerts if alert.type == "cron_failure"]
    [alert] = alerts
    assert (alert.schedule, alert.cron, alert.phase, alert.severity) == (
        "health-check",
        "*/5 * * * *",
        "fired",
        "error",
    )
    assert alert.error == "ConnectionError: database is away: postgresql://***@db/shop"
    assert alert.message == "Schedule health-check: a run failed"
    assert (alert.task, alert.attempts, len(alert.job_ids)) == (check.name, 1, 1)

    broken = False
    await work(app, clock, 6 * MINUTE)
    seen = [(alert.phase, alert.count) for alert in inbox.alerts if alert.type == "cron_failure"]
    assert seen == [("fired", 1), ("resolved", 4)]
    assert (ran.count("check"), ran.count("aggregate")) == (5, 2)
    assert len(await ticks(app)) == 7


async def test_a_failed_run_that_is_replayed_and_done_resolves(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Missed("nightly")])
    broken = True

    @memory.schedule(cron("0 2 * * *"), name="nightly")
    @memory.task(attempts=1)
    async def nightly() -> None:
        if broken:
            raise RuntimeError("no disk")

    await memory.schedules.declare()
    await memory.alerts.declare()
    await work(memory, clock, 3 * HOUR, step=10 * MINUTE)
    assert inbox.seen == [("missed:nightly", "fired")]
    broken = False
    await memory.job(inbox.last.job_ids[0]).replay()
    await work(memory, clock, 10 * MINUTE)
    assert inbox.seen == [("missed:nightly", "fired"), ("missed:nightly", "resolved")]


async def test_a_run_that_is_late_is_an_alert_and_resolves_when_it_ends(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Missed()])
    await memory.schedules.put("slow", every("2h"), elsewhere(memory), expect_within="10m")
    await memory.alerts.declare()
    for _ in range(135):
        clock.turn(MINUTE)
        await memory.schedules.fire()
        await memory.schedules.watch()
        await look(memory)
    assert [(alert.message, alert.phase) for alert in inbox.alerts] == [("Schedule slow: a run is late", "fired")]

    @memory.task(name="elsewhere")
    async def there(tenant: int) -> None: ...

    await work(memory, clock, 2 * MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired", "resolved"]


async def test_ticks_that_were_missed_are_an_alert_of_as_many(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Missed()])
    await memory.schedules.put("hourly", every("1h"), elsewhere(memory), expect_within="10m", catch_up="skip")
    await memory.alerts.declare()
    clock.turn(3 * HOUR + 30 * MINUTE)
    await memory.schedules.fire()
    await look(memory)
    [alert] = inbox.alerts
    assert (alert.message, alert.count, alert.job_ids) == ("Schedule hourly: a run was missed, and 2 more", 3, ())


async def test_a_schedule_that_was_removed_resolves_and_events_before_the_rule_are_not_its_business(
    memory, clock, inbox
):
    @memory.schedule(every("1h"), name="hourly")
    @memory.task(attempts=1)
    async def hourly() -> None:
        raise RuntimeError("no disk")

    await memory.schedules.declare()
    await work(memory, clock, 2 * HOUR, step=10 * MINUTE)
    memory.alerts(to=[inbox], rules=[Missed()])
    await memory.alerts.declare()
    await work(memory, clock, 50 * MINUTE, step=10 * MINUTE)
    assert inbox.alerts == []
    await work(memory, clock, 20 * MINUTE, step=10 * MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired"]
    await memory.schedules.remove("hourly")
    await work(memory, clock, MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired", "resolved"]


async def test_more_events_than_one_look_reads_are_all_read(memory, clock, inbox):
    import json

    from packhorse.model.effect import Publish

    memory.alerts(to=[inbox], rules=[Missed()])
    await memory.schedules.put("a", every("1h"), elsewhere(memory))
    await memory.alerts.declare()
    event = json.dumps({"event": "missed", "schedule": "a", "tick": BEGIN.isoformat()}).encode()
    streams = (await memory.store()).streams
    for _ in range(3):
        await streams.publish([Publish("packhorse.schedules", event, "a")] * 400)
    await streams.publish([Publish("packhorse.schedules", b"not an event")])
    clock.turn(30 * SECOND)
    for _ in range(4):
        clock.turn(SECOND)
        await look(memory)
    [status] = await memory.alerts.find()
    assert status.count == 1200
    assert len(inbox.alerts) == 1
