"""Rules are declared in code by several processes and releases: the highest release decides."""

import asyncio

import msgspec

from packhorse import AnyDead, App, Backlog, DeadLetters
from packhorse.alerts.alert import KIND
from packhorse.model.effect import Put
from packhorse.telemetry.names import EventName
from tests.factories import MINUTE, SECOND
from tests.features.alerting import Inbox, fill, kill, look, pass_time


def of(make, clock, release, *rules, inbox=None):
    app = make(clock=clock, release=release)
    app.alerts(to=[inbox or Inbox()], rules=list(rules))
    return app


async def states(app):
    return {status.rule: status.state for status in await app.alerts.find()}


async def test_processes_that_start_together_store_each_rule_once(make, clock):
    apps = [of(make, clock, "1", Backlog(), DeadLetters()) for _ in range(4)]
    changed = await asyncio.gather(*(app.alerts.declare() for app in apps))
    assert sorted(name for names in changed for name in names) == ["backlog", "dead_letters"]


async def test_a_lower_release_changes_nothing_and_a_higher_one_disables_what_it_lacks(make, clock):
    old = of(make, clock, "1.9", Backlog(), DeadLetters())
    new = of(make, clock, "1.10", Backlog(ready=5))
    ignored = []
    old.telemetry.on(lambda name, fields: ignored.append(fields["detail"]), EventName.DECLARATION_IGNORED)
    assert await old.alerts.declare() == ["backlog", "dead_letters"]
    assert await new.alerts.declare() == ["backlog", "dead_letters"]
    assert await states(new) == {"backlog": "quiet", "dead_letters": "disabled"}
    assert await old.alerts.declare() == []
    assert ignored == ["alert rule backlog of 1.10 over 1.9", "alert rule dead_letters of 1.10 over 1.9"]
    assert await states(old) == {"backlog": "quiet", "dead_letters": "disabled"}


async def test_a_rule_that_was_disabled_fires_no_more_and_its_groups_go(make, clock):
    inbox = Inbox()
    old = of(make, clock, "1", AnyDead(), Backlog("email", ready=0), DeadLetters(dead=1000), inbox=inbox)
    await old.alerts.declare()
    await fill(old, 2)
    clock.turn(SECOND)
    await kill(await old.store(), 1)
    await look(old)
    assert sorted(inbox.seen) == [("any_dead", "fired"), ("backlog:email", "fired")]
    new = of(make, clock, "2", DeadLetters(dead=1000), inbox=inbox)
    await new.alerts.declare()
    await pass_time(new, clock, 10 * MINUTE, step=MINUTE)
    assert len(inbox.alerts) == 2
    assert await states(new) == {"any_dead": "disabled", "backlog:email": "disabled", "dead_letters": "quiet"}
    assert [record.key for record in (await (await new.store()).records.find(KIND, prefix="any_dead")).items] == [
        "any_dead"
    ]


async def test_an_alert_that_fires_goes_on_over_a_change_of_its_number(make, clock):
    inbox = Inbox()
    old = of(make, clock, "1", Backlog("email", ready=0), inbox=inbox)
    await old.alerts.declare()
    await fill(old, 2)
    await look(old)
    new = of(make, clock, "2", Backlog("email", ready=1), inbox=inbox)
    await new.alerts.declare()
    await pass_time(new, clock, MINUTE)
    assert [alert.phase for alert in inbox.alerts] == ["fired"]


async def test_rules_of_a_newer_release_are_left_to_its_processes(make, clock):
    app = of(make, clock, "1", Backlog(ready=0))
    await app.alerts.declare()
    records = (await app.store()).records
    [record] = await records.get(KIND, ["backlog"])
    newer = record.value.replace(b'"kind":"backlog"', b'"kind":"failing"').replace(
        b'"name":"backlog"', b'"name":"failing"'
    )
    now = clock.now()
    await records.put([Put(KIND, "failing", newer, due=now), Put(KIND, "strange", b'{"type":"dream"}', due=now)])
    await fill(app, 1)
    await look(app)
    assert await states(app) == {"backlog": "firing"}
    assert [(each.key, each.value) for each in await records.due(KIND, 10)] == [
        ("failing", newer),
        ("strange", b'{"type":"dream"}'),
    ]


async def test_what_is_stored_of_a_rule_can_be_read_by_the_next_release(memory, clock):
    memory.alerts(to=[Inbox()], rules=[Backlog("email", ready=5, for_="1m", remind="1h", severity="critical")])
    await memory.alerts.declare()
    [record] = await (await memory.store()).records.get(KIND, ["backlog:email"])
    stored = msgspec.json.decode(record.value)
    assert stored["type"] == "rule"
    assert stored["to"] == ["inbox"]
    assert stored["spec"] == {
        "name": "backlog:email", "kind": "backlog", "severity": "critical", "queue": "email", "above": 5,
        "for_us": MINUTE, "remind_us": 60 * MINUTE,
    }  # fmt: skip


async def test_a_worker_declares_and_evaluates_by_itself(live):
    inbox = Inbox()
    live.alerts(to=[inbox], rules=[Backlog("email", ready=0)])
    await fill(live, 1)
    async with live.worker("default"), asyncio.timeout(20):
        while not inbox.alerts:
            await asyncio.sleep(0.01)
    assert inbox.seen == [("backlog:email", "fired")]


async def test_apps_that_two_functions_make_are_two_apps_and_leave_each_others_rules_alone(tmp_path):
    def shop():
        return App(f"sqlite:///{tmp_path / 'two.db'}", release="1")

    def office():
        return App(f"sqlite:///{tmp_path / 'two.db'}", release="2")

    async with shop() as one, office() as two:
        one.alerts(to=[Inbox()], rules=[Backlog("shop")])
        two.alerts(to=[Inbox()], rules=[Backlog("office")])
        await one.alerts.declare()
        await two.alerts.declare()
        assert await states(one) == {"backlog:office": "quiet", "backlog:shop": "quiet"}
