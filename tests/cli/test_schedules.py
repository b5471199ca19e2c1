"""packhorse schedules: look, run by hand, pause, resume, remove, sync."""

import pytest

from packhorse import App
from packhorse.model.effect import Put
from packhorse.schedules.schedule import KIND
from tests.cli.scene import Scene

KEYS = {
    "schedule", "rule", "means", "zone", "task", "queue", "state", "catch_up", "overlap", "release", "declared_in", "app",
    "last", "next", "fault",
}  # fmt: skip
CLOCKS = """
from datetime import UTC, datetime

from packhorse import App, Tick, cron, every

app = App()


@app.schedule(cron("30 2 * * *", tz="Europe/Paris"), name="nightly", expect_within="1h")
@app.task(name="clean", queue="upkeep")
async def clean(tick: Tick) -> str:
    return tick.at.isoformat()


@app.schedule(every("1d"), name="over", end=datetime(2026, 1, 1, tzinfo=UTC))
@app.schedule(every("1h"), name="hourly")
async def refresh() -> None: ...
"""


@pytest.fixture
async def clocks(own_scenes: Scene) -> Scene:
    """A store with the schedules of an app."""
    own_scenes.write("clocks.py", CLOCKS)
    [synced] = await own_scenes.each("schedules sync -A clocks")
    assert synced.out == "Changed: nightly, hourly, over.\n"
    return own_scenes


async def test_schedules_are_listed_shown_and_forereported(clocks: Scene):
    listed, table, few, shown, foretold, words = await clocks.each(
        "schedules ls --json",
        "schedules ls",
        "schedules ls night --json",
        "schedules show nightly --json",
        "schedules next nightly -n 400 --json",
        "schedules next nightly",
    )

    assert [set(schedule) for schedule in listed.json] == [KEYS] * 3
    assert [schedule["schedule"] for schedule in listed.json] == ["hourly", "nightly", "over"]
    assert "Europe/Paris" in table.out
    assert [schedule["schedule"] for schedule in few.json] == ["nightly"]
    assert shown.json["means"] == "At 02:30 every day (Europe/Paris)"
    assert (shown.json["task"], shown.json["queue"], shown.json["declared_in"]) == ("clean", "upkeep", "clocks")
    policies = {name: shown.json[name] for name in ("gap", "fold", "jitter", "start", "end", "expect_within")}
    assert policies == {
        "gap": "shift", "fold": "first", "jitter": 0.0, "start": None, "end": None, "expect_within": 3600.0,
    }  # fmt: skip
    remarks = [row["remark"] for row in foretold.json if row["remark"]]
    assert sorted(remarks) == ["clocks go back by 1:00:00 around it", "clocks go forward by 1:00:00 around it"]
    assert words.out.count("02:30:00 CE") >= 9


async def test_a_schedule_is_run_by_hand_for_a_chosen_time(clocks: Scene):
    ran, jobs, again = await clocks.each(
        "schedules run nightly --at 2026-01-31T02:30:00Z --json",
        "jobs ls --task clean --json",
        "schedules backfill hourly 5h 2h --json",
    )

    assert [job["id"] for job in jobs.json] == [ran.json["id"]]
    assert again.json == {"schedule": "hourly", "made": 3}


async def test_schedules_are_paused_resumed_and_removed(clocks: Scene):
    paused, none, over, resumed, some, unasked, removed, left = await clocks.each(
        "schedules pause nightly hourly",
        "schedules next hourly",
        "schedules next over",
        "schedules resume nightly hourly",
        "schedules next hourly --json",
        "schedules rm hourly",
        "schedules rm hourly --yes",
        "schedules ls --json",
    )

    assert over.out == "over has no next tick: it ended with 2026-01-01 00:00:00+00:00.\n"
    assert paused.out == "Paused: nightly, hourly.\n"
    assert none.out == "hourly has no next tick: it is paused.\n"
    assert resumed.out == "Resumed: nightly, hourly.\n"
    assert len(some.json) == 10
    assert (unasked.code, unasked.err) == (
        2,
        "Error: 1 schedule will be removed. Use --yes to go on without being asked.\n",
    )
    assert removed.out == "Removed: hourly.\n"
    assert [schedule["schedule"] for schedule in left.json] == ["nightly", "over"]


async def test_what_is_declared_no_more_is_disabled_by_sync(clocks: Scene):
    clocks.write("clocks.py", CLOCKS.partition('@app.schedule(every("1d")')[0])
    synced, again, listed = await clocks.each(
        "schedules sync -A clocks", "schedules sync -A clocks", "schedules ls --json"
    )

    assert (synced.out, again.out) == ("Changed: hourly, over.\n", "Changed: nothing, all schedules are as declared.\n")
    assert [schedule["state"] for schedule in listed.json] == ["disabled", "active", "disabled"]


async def test_a_schedule_that_is_not_there_is_printed_so(clocks: Scene):
    for ended in await clocks.each(
        "schedules show nosuch", "schedules next nosuch", "schedules run nosuch", "schedules pause nosuch",
        "schedules rm nosuch --yes", "schedules backfill nosuch 2h 1h",
    ):  # fmt: skip
        assert (ended.code, ended.err) == (
            2,
            "Error: There is no schedule 'nosuch': `packhorse schedules ls` lists the stored ones\n",
        )


async def test_if_one_of_several_is_not_there_none_is_touched(clocks: Scene):
    *refused, listed = await clocks.each(
        "schedules pause nightly nosuch", "schedules rm nightly nosuch --yes", "schedules ls night --json"
    )

    assert [ended.code for ended in refused] == [2, 2]
    assert [schedule["state"] for schedule in listed.json] == ["active"]


async def test_a_zone_that_is_unknown_here_costs_only_its_own_schedule(clocks: Scene):
    async with App(clocks.environment["PACKHORSE_URL"], namespace=clocks.environment["PACKHORSE_NAMESPACE"]) as app:
        records = (await app.store()).records
        [nightly] = await records.get(KIND, ["nightly"])
        assert nightly is not None
        value = nightly.value.replace(b"Europe/Paris", b"Europe/Atlantis")
        await records.put([Put(KIND, "nightly", value, due=nightly.due)])
    listed, table, shown, foretold, removed = await clocks.each(
        "schedules ls --json",
        "schedules ls",
        "schedules show nightly --json",
        "schedules next nightly",
        "schedules rm nightly --yes",
    )

    states = {schedule["schedule"]: (schedule["state"], schedule["fault"] is None) for schedule in listed.json}
    assert states == {"hourly": ("active", True), "nightly": ("cannot fire here", False), "over": ("active", True)}
    assert "cannot fire here" in table.out
    assert shown.json["fault"].startswith("The schedule \"tz='Europe/Atlantis'\" is refused: no such time zone")
    assert (foretold.code, "Europe/Atlantis" in foretold.err) == (2, True)
    assert removed.out == "Removed: nightly.\n"
