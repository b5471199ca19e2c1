"""packhorse alerts: what fires, silences, tests, deliveries."""

import pytest

from packhorse import App, Backlog, LogTarget
from tests.cli.scene import Scene


@pytest.fixture
async def declared(own_scenes: Scene) -> Scene:
    """A scene with two rules, of which one fires."""
    async with App(own_scenes.url, namespace=own_scenes.namespace) as app:
        app.alerts(to=[LogTarget("pager")], rules=[Backlog(ready=1000), Backlog("email", ready=0, severity="critical")])
        await app.alerts.declare()
        await app.alerts.evaluate()
    return own_scenes


async def test_rules_are_listed_with_what_fires(declared: Scene):
    listed, table = await declared.each("alerts ls --json", "alerts ls")
    assert [(rule["rule"], rule["state"], rule["severity"], rule["to"]) for rule in listed.json] == [
        ("backlog", "quiet", "warning", ["pager"]),
        ("backlog:email", "firing", "critical", ["pager"]),
    ]
    assert "Queue email has" in table.out


async def test_a_silence_is_made_listed_and_ended(declared: Scene):
    made, listed, ls, refused, endless = await declared.each(
        "alerts silence --queue email --for 2h --why deploy --json",
        "alerts silences --json",
        "alerts ls --json",
        "alerts silence --for 2h",
        "alerts silence --queue email --for never",
    )
    assert [each["id"] for each in listed.json] == [made.json["id"]]
    assert (listed.json[0]["queue"], listed.json[0]["why"]) == ("email", "deploy")
    assert [rule["state"] for rule in ls.json] == ["quiet", "silenced"]
    assert (refused.code, endless.code) == (2, 2)
    ended, again, none, audit = await declared.each(
        f"alerts silence --end {made.json['id']}",
        f"alerts silence --end {made.json['id']}",
        "alerts silences",
        "audit --json",
    )
    assert (ended.out, again.out) == ("Ended.\n", f"There is no silence {made.json['id']}.\n")
    assert none.out == "Nothing is silenced.\n"
    assert [entry["action"] for entry in audit.json if entry["outcome"] == "done"][:3] == [
        "alert silence end", "alert silence end", "alert silence",
    ]  # fmt: skip


async def test_a_test_is_enqueued_and_deliveries_are_listed(declared: Scene):
    sent, listed, table = await declared.each(
        "alerts test pager --json", "alerts deliveries --json", "alerts deliveries -n 1"
    )
    assert sorted((each["target"], each["rule"], each["phase"], each["state"]) for each in listed.json) == [
        ("pager", "backlog:email", "fired", "ready"),
        ("pager", "test", "test", "ready"),
    ]
    assert sent.json["delivery"] in {each["id"] for each in listed.json}
    assert "pager" in table.out


async def test_a_rule_that_no_release_declares_any_more_is_removed(declared: Scene):
    removed, again, listed = await declared.each("alerts rm backlog", "alerts rm backlog", "alerts ls --json")
    assert (removed.out, again.out) == ("Removed: backlog.\n", "There is no such rule.\n")
    assert [rule["rule"] for rule in listed.json] == ["backlog:email"]


async def test_a_store_without_alerts_says_so(own_scene: Scene):
    rules, silences, deliveries = await own_scene.each("alerts ls", "alerts silences", "alerts deliveries")
    assert "declare them with app.alerts" in rules.out
    assert silences.out == "Nothing is silenced.\n"
    assert deliveries.out == "No alert was sent in the last seven days.\n"
