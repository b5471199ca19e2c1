"""Rules of alerts: when each fires and resolves, once over all processes."""

import asyncio
import os

import pytest

from packhorse import AnyDead, App, Backlog, DeadLetters, Missed, NoWorker, Oldest, Stuck, log_alerts
from packhorse.alerts import evaluation
from packhorse.alerts.alert import KIND
from packhorse.errors import InvalidInput
from packhorse.jobs.portal import PORTAL
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Wait
from packhorse.model.reason import WaitReason
from packhorse.testing import run_until_idle
from tests.factories import HOUR, MINUTE, SECOND, ask
from tests.features.alerting import Inbox, deliver, fill, kill, look, pass_time, take_away

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
READY, STORM = (1000, 1000) if LONG else (100, 100)


@pytest.fixture
def inbox():
    return Inbox()


async def test_s40_a_backlog_fires_above_its_number_and_resolves_at_it(app, clock, inbox):
    app.alerts(to=[inbox], rules=[Backlog("email", ready=READY)])
    await app.alerts.declare()
    await fill(app, READY)
    await pass_time(app, clock, 60 * SECOND, step=30 * SECOND)
    assert inbox.alerts == []

    await fill(app, 1)
    await pass_time(app, clock, 90 * SECOND, step=30 * SECOND)
    [alert] = inbox.alerts
    assert (alert.type, alert.phase, alert.severity) == ("backlog", "fired", "warning")
    assert (alert.queue, alert.count, alert.rule) == ("email", READY + 1, "backlog:email")
    assert alert.message == f"Queue email has {READY + 1:,} ready jobs, more than {READY:,}"

    await take_away(app, 1)
    await pass_time(app, clock, 90 * SECOND, step=30 * SECOND)
    assert inbox.seen == [("backlog:email", "fired"), ("backlog:email", "resolved")]
    assert inbox.last.resolved_at is not None
    assert inbox.last.fired_at == alert.fired_at


async def test_a_rule_is_evaluated_every_thirty_seconds_and_every_five_while_an_alert_is_pending(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Backlog("email", ready=0, for_="12s")])
    await memory.alerts.declare()
    await look(memory)
    await fill(memory, 1)
    states = []
    for _ in range(50):
        clock.turn(SECOND)
        await look(memory)
        [status] = await memory.alerts.find()
        states.append((status.state, len(inbox.alerts)))
    assert states.index(("pending", 0)) == 29
    assert states.index(("firing", 1)) == 29 + 15  # the first look of those every five seconds that is not before 12 s


@pytest.mark.parametrize(("count", "seen"), [(100, []), (101, [("dead_letters", "fired")])])
async def test_dead_letters_fire_above_a_hundred_in_any_queue(memory, clock, inbox, count, seen):
    memory.alerts(to=[inbox], rules=[DeadLetters()])
    await memory.alerts.declare()
    await fill(memory, count)
    await kill(await memory.store(), count)
    await pass_time(memory, clock, 60 * SECOND)
    assert inbox.seen == seen
    assert [alert.queue for alert in inbox.alerts] == ["email"] * len(seen)


async def test_without_rules_the_usual_ones_are_stored(memory, inbox):
    memory.alerts(to=[inbox])
    assert await memory.alerts.declare() == ["any_dead", "backlog", "dead_letters", "missed"]
    assert [(status.rule, status.state) for status in await memory.alerts.find()] == [
        (name, "quiet") for name in ("any_dead", "backlog", "dead_letters", "missed")
    ]


async def test_the_oldest_ready_job_fires_by_its_age(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Oldest(age="10m")])
    await memory.alerts.declare()
    await fill(memory, 1)
    await pass_time(memory, clock, 10 * MINUTE, step=MINUTE)
    assert inbox.alerts == []
    await pass_time(memory, clock, 2 * MINUTE, step=MINUTE)
    assert inbox.seen == [("oldest", "fired")]
    await take_away(memory, 1)
    await pass_time(memory, clock, MINUTE)
    assert inbox.seen == [("oldest", "fired"), ("oldest", "resolved")]


async def test_work_without_a_worker_fires_after_a_minute_and_is_delivered_while_there_is_none(live, inbox):
    """The process that evaluates serves another queue, and runs the system queue beside it."""
    live.alerts(to=[inbox], rules=[NoWorker(for_=0)])
    await fill(live, 1, queue="orphans")
    async with live.worker("other"):
        async with asyncio.timeout(20):
            while not inbox.alerts:
                await asyncio.sleep(0.01)
    assert (inbox.last.type, inbox.last.queue, inbox.last.severity) == ("no_worker", "orphans", "critical")


async def test_no_worker_waits_a_minute_and_passes_over_paused_queues_and_work_that_is_not_due(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[NoWorker()])
    await memory.alerts.declare()
    await fill(memory, 1, queue="paused")
    await memory.queue("paused").pause()
    await memory.queue("later").enqueue("send", {}, delay="2m")
    await pass_time(memory, clock, 2 * MINUTE - STEP_BEFORE)
    assert inbox.alerts == []
    await pass_time(memory, clock, 40 * SECOND)
    [status] = await memory.alerts.find()
    assert (status.state, inbox.alerts) == ("pending", [])
    await pass_time(memory, clock, MINUTE)
    assert [(alert.queue, alert.phase) for alert in inbox.alerts] == [("later", "fired")]


STEP_BEFORE = 5 * SECOND


async def test_jobs_that_wait_too_long_for_children_are_stuck_and_those_of_a_lane_are_not(app, clock, inbox):
    app.alerts(to=[inbox], rules=[Stuck("6h")])
    await app.alerts.declare()
    store = await app.store()
    await fill(app, 2)
    leases = (await store.jobs.exchange((), ask(2, "email"))).leases
    await store.jobs.exchange([Settlement(leases[0], Wait(WaitReason.CHILDREN, children=1))])
    for _ in range(2):
        await app.queue("email").enqueue("send", {}, key="lane")
    await pass_time(app, clock, 6 * HOUR, step=HOUR)
    assert inbox.alerts == []
    await pass_time(app, clock, HOUR, step=HOUR)
    [alert] = inbox.alerts
    assert alert.message == "1 job of queue email waited for more than 6:00:00"
    assert alert.job_ids == (app.client and (await app.find(queue="email", reason="children")).items[0].id,)


async def test_s23_a_storm_of_deaths_over_three_workers_is_one_alert_that_resolves_once_with_the_total(
    make, clock, inbox
):
    apps = [make(clock=clock) for _ in range(3)]
    for app in apps:
        app.alerts(to=[inbox], rules=[AnyDead()])
        await app.alerts.declare()
    await fill(apps[0], STORM, task="export_data")
    stores = [await app.store() for app in apps]
    clock.turn(SECOND)
    counts = (STORM - 2 * (STORM // 3), STORM // 3, STORM // 3)
    await asyncio.gather(*(kill(store, count) for store, count in zip(stores, counts, strict=True)))
    for _ in range(3):
        await asyncio.gather(*(look(app) for app in apps))
    assert inbox.seen == [("any_dead", "fired")]
    [fired] = inbox.alerts
    assert fired.message.startswith("Task export_data failed after 1 attempt, and ")
    assert len(fired.job_ids) == 10
    assert (fired.task, fired.queue, fired.error, fired.severity) == (
        "export_data",
        "email",
        "Broken: it broke",
        "error",
    )
    for _ in range(11):
        clock.turn(30 * SECOND)
        await asyncio.gather(*(look(app) for app in apps))
    assert inbox.seen == [("any_dead", "fired"), ("any_dead", "resolved")]
    assert inbox.last.count == STORM
    assert inbox.last.message == f"Task export_data: {STORM:,} jobs died, none in the last five minutes"
    assert (await (await app.store()).records.find(KIND, prefix="any_dead/")).items == ()


async def test_one_backlog_over_three_processes_is_one_alert_and_one_resolve(make, clock, inbox):
    apps = [make(clock=clock) for _ in range(3)]
    for app in apps:
        app.alerts(to=[inbox], rules=[Backlog("email", ready=2)])
    await asyncio.gather(*(app.alerts.declare() for app in apps))
    await fill(apps[0], 3)
    for _ in range(8):
        clock.turn(10 * SECOND)
        await asyncio.gather(*(look(app) for app in apps))
    await take_away(apps[0], 1)
    for _ in range(8):
        clock.turn(10 * SECOND)
        await asyncio.gather(*(look(app) for app in apps))
    assert inbox.seen == [("backlog:email", "fired"), ("backlog:email", "resolved")]


async def test_a_death_says_what_failed_and_hides_secrets(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead("exports")])

    @memory.task(name="export_data", queue="exports", attempts=3)
    async def export_data(user: str, api_key: str) -> None:
        raise ConnectionError("https://me:hunter2@warehouse is away")

    await memory.alerts.declare()
    clock.turn(SECOND)
    job = await export_data.enqueue("ada", api_key="hunter2")
    for _ in range(4):
        await run_until_idle(await memory.store(), memory.registry, clock=clock)
        clock.turn(MINUTE)
    await look(memory)
    [alert] = inbox.alerts
    assert alert.message == "Task export_data failed after 3 attempts"
    assert (alert.job_ids, alert.attempts, alert.rule) == ((job.id,), 3, "any_dead:exports")
    assert alert.error == "ConnectionError: https://***@warehouse is away"
    assert alert.data == {"user": "ada", "api_key": "***"}


async def test_deaths_before_a_rule_was_declared_and_those_of_packhorse_itself_raise_no_alert(memory, clock, inbox):
    inbox.down = True
    await fill(memory, 2)
    await kill(await memory.store(), 2)
    clock.turn(SECOND)
    memory.alerts(to=[inbox], rules=[AnyDead(), DeadLetters(dead=0), NoWorker(for_=0)])
    await memory.alerts.declare()
    await pass_time(memory, clock, 40 * SECOND)
    await pass_time(memory, clock, 33 * HOUR, step=HOUR)
    assert {delivery.rule for delivery in await memory.alerts.deliveries()} == {"dead_letters"}
    assert [delivery.state for delivery in await memory.alerts.deliveries()] == ["dead"]


async def test_a_new_death_of_the_same_kind_after_the_resolve_fires_again(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[AnyDead()])
    await memory.alerts.declare()
    for _ in range(2):
        await fill(memory, 1)
        clock.turn(SECOND)
        await kill(await memory.store(), 1)
        await pass_time(memory, clock, 6 * MINUTE, step=30 * SECOND)
    assert [phase for _, phase in inbox.seen] == ["fired", "resolved", "fired", "resolved"]
    assert len(set(inbox.ids)) == 4


async def test_an_alert_that_goes_on_is_sent_again_if_it_is_to_remind(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Backlog("email", ready=0, remind="1h")])
    await memory.alerts.declare()
    await fill(memory, 1)
    await pass_time(memory, clock, 150 * MINUTE, step=MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired", "reminder", "reminder"]


async def test_a_silenced_alert_is_not_sent_and_is_sent_when_the_silence_ends(app, clock, inbox):
    app.alerts(to=[inbox], rules=[Backlog(ready=0), AnyDead()])
    await app.alerts.declare()
    silence = await app.alerts.silence(queue="email", for_="2h", why="a large import")
    await fill(app, 2)
    await fill(app, 1, queue="other")
    clock.turn(SECOND)
    await kill(await app.store(), 1)
    await pass_time(app, clock, MINUTE)
    assert [(alert.rule, alert.queue) for alert in inbox.alerts] == [("backlog", "other")]
    assert {(status.rule, status.state) for status in await app.alerts.find()} == {
        ("backlog", "silenced"), ("backlog", "firing"), ("any_dead", "silenced"),
    }  # fmt: skip
    assert await app.alerts.silences() == [silence]
    await pass_time(app, clock, 2 * HOUR, step=10 * MINUTE)
    assert [(alert.rule, alert.queue) for alert in inbox.alerts] == [("backlog", "other"), ("backlog", "email")]
    assert await app.alerts.silences() == []
    actions = [(entry.action, entry.filter, entry.target) async for entry in app.audit]
    assert actions[0] == ("alert silence", {"queue": "email"}, "a large import")


async def test_a_silence_can_end_before_its_time(memory):
    silence = await memory.alerts.silence(rule="backlog", for_="2h")
    assert await memory.alerts.end_silence(silence.id)
    assert not await memory.alerts.end_silence(silence.id)
    assert await memory.alerts.silences() == []


async def test_a_silence_of_nothing_in_particular_is_refused(memory):
    with pytest.raises(InvalidInput, match="rule=, queue=, task= or fingerprint="):
        await memory.alerts.silence(for_="2h")


async def test_more_queues_than_fit_one_step_are_all_sent(memory, clock, inbox):
    memory.alerts(to=[inbox], rules=[Backlog(ready=0)])
    await memory.alerts.declare()
    await memory.enqueue(*(memory.queue(f"q{number:03}").call("send", {}) for number in range(450)))
    await pass_time(memory, clock, 40 * SECOND)
    assert sorted(alert.queue for alert in inbox.alerts) == [f"q{number:03}" for number in range(450)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda app: app.alerts(to=[]),
        lambda app: app.alerts(to=["inbox"]),
        lambda app: app.alerts(to=[print]),
        lambda app: app.alerts(to=[log_alerts], rules=["backlog"]),
        lambda app: app.alerts(to=[log_alerts], rules=[Backlog("a"), Backlog("a", ready=5)]),
        lambda app: app.alerts(to=[log_alerts], rules=[Backlog("a", to=["pager"])]),
        lambda app: app.alerts(to=[Inbox(), Inbox()]),
        lambda app: [app.alerts(to=[log_alerts]) for _ in range(2)],
        lambda app: Backlog("packhorse.system"),
        lambda app: Backlog(ready=-1),
        lambda app: Oldest(age=0),
        lambda app: Stuck(age="soon"),
        lambda app: Missed("a\n"),
        lambda app: AnyDead(severity="loud"),  # type: ignore[arg-type]
        lambda app: AnyDead(remind=0),
        lambda app: AnyDead(for_="-1s"),
        lambda app: AnyDead(to="pager"),
        lambda app: AnyDead(name=""),
    ],
)
async def test_what_makes_no_sense_is_refused_when_it_is_declared(memory, wrong):
    with pytest.raises(InvalidInput):
        wrong(memory)


def test_code_without_an_event_loop_has_the_same(tmp_path, inbox):
    live = App(f"sqlite:///{tmp_path / 'sync.db'}")
    live.alerts(to=[inbox], rules=[Backlog("email", ready=0)])
    alerts = live.sync.alerts
    assert alerts.declare() == ["backlog:email"]
    live.sync.queue("email").enqueue("send", {})
    alerts.evaluate()
    assert [status.state for status in alerts.find()] == ["firing"]
    silence = alerts.silence(queue="email", for_="1h")
    assert [each.id for each in alerts.silences()] == [silence.id]
    assert [status.state for status in alerts.find()] == ["silenced"]
    assert alerts.end_silence(silence.id)
    job = alerts.test("inbox")
    assert {delivery.phase for delivery in alerts.deliveries()} == {"fired", "test"}
    assert job.state() == "ready"
    assert alerts.remove("backlog:email")
    assert alerts.find() == []
    live.sync.close()
    PORTAL.stop()


async def test_a_rule_keeps_no_more_alerts_than_its_record_holds(memory, clock, inbox, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_ALERTS", 3)
    memory.alerts(to=[inbox], rules=[Backlog(ready=0)])
    await memory.alerts.declare()
    for name in "dceab":
        await fill(memory, 1, queue=name)
        await pass_time(memory, clock, 30 * SECOND)
    assert [alert.queue for alert in inbox.alerts] == ["d", "c", "e"]
    await take_away(memory, 1, queue="c")
    await pass_time(memory, clock, 35 * SECOND)
    assert [(alert.queue, alert.phase) for alert in inbox.alerts[3:]] == [("c", "resolved"), ("a", "fired")]


async def test_an_app_without_alerts_neither_evaluates_nor_delivers(memory):
    assert isinstance(memory, App)
    assert memory.system.duties(await memory.store()) == []
    assert not memory.system.required
    await deliver(memory)
