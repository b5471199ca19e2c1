"""Schedules at run time, and by hand."""

from datetime import datetime

import pytest

from packhorse import App, Tick, cron, every
from packhorse.errors import InvalidName, InvalidSchedule, ScheduleNotFound
from packhorse.jobs.portal import PORTAL
from packhorse.testing import TurnedClock
from tests.features.factories import DAY, HOUR, MINUTE, run
from tests.features.scheduling import BEGIN, at, begin, elsewhere, nothing, pass_time, ticks


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


@pytest.fixture
def seen() -> list[Tick]:
    return []


# -- put, pause, resume, remove, find


async def test_a_schedule_put_at_run_time_makes_its_call(app, clock):
    done: list[tuple[str, object]] = []

    @app.task(name="report")
    async def report(tenant: str, year: int = 0) -> None:
        done.append((tenant, year))

    schedule = await app.schedules.put("report:tenant-42", cron("0 9 * * 1"), report.call("tenant-42", year=2026))
    assert schedule.what.task == "report"
    assert await app.schedules.next("report:tenant-42", 2) == [at("03-02T09:00"), at("03-09T09:00")]

    clock.turn(2 * DAY)
    await app.schedules.fire()
    await run(app)

    assert done == [("tenant-42", 2026)]
    assert (await app.schedules.get("report:tenant-42")).last == at("03-02T09:00")


async def test_a_paused_schedule_fires_nothing_and_makes_up_fornothing(app, clock):
    await app.schedules.put("hourly", every("1h"), elsewhere(app), catch_up="all", overlap="allow")
    await app.schedules.pause("hourly")
    assert await app.schedules.next("hourly") == []
    await pass_time(app, clock, 5 * HOUR, HOUR)
    assert await ticks(app) == []

    await app.schedules.resume("hourly")
    await pass_time(app, clock, HOUR, HOUR)
    assert await ticks(app) == ["03-01T06:00"]


async def test_putting_again_changes_the_rule_and_keeps_the_pause(app, clock):
    await app.schedules.put("s", every("1h"), elsewhere(app))
    await app.schedules.pause("s")
    assert (await app.schedules.put("s", every("2h"), elsewhere(app))).paused
    await app.schedules.resume("s")
    assert await app.schedules.next("s", 1) == [at("03-01T02:00")]


async def test_a_removed_schedule_is_gone(app, clock):
    await app.schedules.put("s", every("1h"), elsewhere(app))
    assert await app.schedules.remove("s")
    assert not await app.schedules.remove("s")
    with pytest.raises(ScheduleNotFound, match="schedules ls"):
        await app.schedules.get("s")
    for verb in (app.schedules.pause, app.schedules.resume, app.schedules.next, app.schedules.run):
        with pytest.raises(ScheduleNotFound):
            await verb("s")


async def test_schedules_are_found_by_the_beginning_of_their_names_page_by_page(app):
    for n in range(5):
        await app.schedules.put(f"report:{n}", every("1h"), elsewhere(app))
    await app.schedules.put("other", every("1h"), elsewhere(app))

    first = await app.schedules.find("report:", limit=3)
    rest = await app.schedules.find("report:", limit=3, cursor=first.cursor)

    assert [schedule.name for schedule in (*first.items, *rest.items)] == [f"report:{n}" for n in range(5)]


# -- by hand


async def test_a_run_by_hand_has_the_logical_time_that_was_chosen(app, clock, seen):
    @app.schedule(cron("@daily"), name="nightly")
    async def nightly(tick: Tick) -> None:
        seen.append(tick)

    await app.schedules.declare()
    await app.schedules.run("nightly", at=at("02-01T00:00"))
    await app.schedules.run("nightly", at=at("02-01T00:00"))
    await app.schedules.run("nightly")
    await run(app)

    assert sorted(tick.at for tick in seen) == [at("02-01T00:00"), at("02-01T00:00"), BEGIN]
    assert {(tick.at, tick.previous) for tick in seen} == {
        (at("02-01T00:00"), at("01-31T00:00")),
        (BEGIN, at("02-28T00:00")),
    }
    with pytest.raises(InvalidSchedule, match="time zone"):
        await app.schedules.run("nightly", at=datetime(2026, 1, 1))


async def test_a_backfill_makes_what_was_not_made_one_after_the_other(app, clock, seen):
    @app.schedule(cron("@hourly"), name="hourly")
    async def hourly(tick: Tick) -> None:
        seen.append(tick)

    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await run(app)

    assert await app.schedules.backfill("hourly", at("02-28T22:00"), at("03-01T02:00")) == 3
    assert await app.schedules.backfill("hourly", at("02-28T22:00"), at("03-01T02:00")) == 0
    await run(app)

    assert [tick.at for tick in seen[1:]] == [at("02-28T22:00"), at("02-28T23:00"), BEGIN]
    assert [tick.previous for tick in seen[1:]] == [at("02-28T21:00"), at("02-28T22:00"), at("02-28T23:00")]
    with pytest.raises(InvalidSchedule, match="after the begin"):
        await app.schedules.backfill("hourly", BEGIN, BEGIN)


async def test_a_backfill_leaves_ticks_that_are_still_to_come(app, clock):
    await app.schedules.put("hourly", every("1h"), elsewhere(app), overlap="allow")
    clock.turn(HOUR + MINUTE)

    assert await app.schedules.backfill("hourly", BEGIN, at("03-01T05:00")) == 2
    assert await ticks(app) == ["03-01T00:00", "03-01T01:00"]


@pytest.mark.parametrize("policies", [{}, {"overlap": "queue"}, {"overlap": "allow", "expect_within": "1h"}])
async def test_a_schedule_of_any_name_that_is_taken_can_be_fired(app, clock, policies):
    longest = "é" * 127 + "x"
    await app.schedules.put(longest, every("1h"), elsewhere(app), **policies)
    with pytest.raises(InvalidName, match="255"):
        await app.schedules.put(longest + "x", every("1h"), elsewhere(app))
    with pytest.raises(InvalidName, match="255"):
        app.schedule(every("1h"), name=longest + "x")(nothing(app))

    clock.turn(HOUR)

    assert await app.schedules.fire() == 1


def test_code_without_an_event_loop_has_the_same(tmp_path, clock):
    app = App(f"sqlite:///{tmp_path}/sync.db", clock=clock)
    schedules, seen = app.sync.schedules, []

    @app.schedule(every("1h"), name="s")
    def handler(tick: Tick) -> None:
        seen.append(tick.at)

    assert schedules.declare() == ["s"]
    assert schedules.put("other", every("1h"), elsewhere(app)).name == "other"
    assert [schedule.name for schedule in schedules.find().items] == ["other", "s"]
    schedules.pause("other")
    assert schedules.next("other") == []
    schedules.resume("other")
    assert schedules.next("other", 1) == [at("03-01T01:00")]
    assert schedules.remove("other")
    clock.turn(HOUR)
    assert schedules.fire() == 1
    assert schedules.get("s").last == at("03-01T01:00")
    assert schedules.backfill("s", BEGIN, at("03-01T02:00")) == 1
    assert schedules.run("s", at=BEGIN).state() == "ready"
    assert schedules.sync() == []
    app.sync.close()
    PORTAL.stop()
