"""Schedules at run time, by hand, and from release to release."""

from datetime import datetime

import pytest

from packhorse import Tick, cron, every
from packhorse.errors import InvalidSchedule, ScheduleNotFound
from packhorse.testing.clock import TurnedClock
from tests.features.making import DAY, HOUR, run
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
    with pytest.raises(InvalidSchedule, match="after the begin"):
        await app.schedules.backfill("hourly", BEGIN, BEGIN)


# -- releases


async def test_a_lower_release_never_overwrites_what_a_higher_one_declared(make, clock):
    old, new = make(clock=clock, release="1.9"), make(clock=clock, release="1.10")
    old.schedule(every("1h"), name="s")(nothing(old))
    new.schedule(every("2h"), name="s")(nothing(new))

    for app in (old, new, old, new, old):  # a rolling deploy, restarting in turn
        await app.schedules.declare()

    schedule = await old.schedules.get("s")
    assert (schedule.rule, schedule.release) == (every("2h"), "1.10")


async def test_a_higher_release_disables_what_it_no_longer_declares_and_a_lower_one_does_not(make, clock):
    old, new = make(clock=clock, release="1"), make(clock=clock, release="2")
    old.schedule(every("1h"), name="gone")(nothing(old))
    for app in (old, new):
        app.schedule(every("1h"), name="kept")(nothing(app) if app is new else app.registry.task("nothing"))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept", "gone"]
    assert await old.schedules.declare() == []

    assert (await new.schedules.get("gone")).disabled
    assert not (await new.schedules.get("kept")).disabled


async def test_without_a_release_nothing_is_disabled_until_sync_says_so(make, clock):
    old, new = make(clock=clock), make(clock=clock)
    old.schedule(every("1h"), name="gone")(nothing(old))
    new.schedule(every("1h"), name="kept")(nothing(new))
    await new.schedules.put("by-hand", every("1h"), elsewhere(new))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept"]
    assert await new.schedules.next("gone", 1)

    assert await new.schedules.sync() == ["gone"]
    assert await new.schedules.next("gone", 1) == []
    assert await new.schedules.next("by-hand", 1)


async def test_declaring_again_changes_nothing_and_forgets_no_tick_that_is_due(make, clock):
    app = make(clock=clock)
    app.schedule(every("1h"), name="s", overlap="allow")(nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    assert await app.schedules.declare() == []
    changed = make(clock=clock)
    changed.schedule(every("1h"), name="s", overlap="allow", expect_within="5m")(nothing(changed))
    assert await changed.schedules.declare() == ["s"]

    assert await app.schedules.fire() == 1
