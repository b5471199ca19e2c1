"""Ticks that are late, were missed, or come while a run goes on; clocks that jump and differ."""

import asyncio
import os

import pytest

from packhorse import Tick, cron, every
from packhorse.errors import InvalidSchedule
from packhorse.schedules.firing import MAX_CAUGHT_UP
from packhorse.telemetry.names import EventName
from tests.factories import take
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything, run
from tests.features.scheduling import (
    SetClock,
    alarms,
    at,
    begin,
    each,
    elsewhere,
    moved,
    nothing,
    pass_time,
    ticks,
)

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
DOWN = [f"03-01T0{n}:00" for n in range(1, 6)]


@pytest.fixture
def clock() -> SetClock:
    return begin()


# -- after a time in which nobody fired


@pytest.mark.parametrize(
    ("catch_up", "overlap", "expected"),
    [
        ("skip", "skip", []),
        ("skip", "queue", []),
        ("skip", "allow", []),
        ("latest", "skip", DOWN[-1:]),
        ("latest", "queue", DOWN[-1:]),
        ("latest", "allow", DOWN[-1:]),
        ("all", "queue", DOWN),
        ("all", "allow", DOWN),
        ("all", None, DOWN),
    ],
)
async def test_what_was_missed_is_caught_up_with_as_declared(app, clock, catch_up, overlap, expected):
    given = {} if overlap is None else {"overlap": overlap}
    app.schedule(cron("@hourly"), name="hourly", catch_up=catch_up, **given)(nothing(app))
    await app.schedules.declare()

    clock.turn(5 * HOUR + 10 * MINUTE)
    assert await app.schedules.fire() == len(expected)
    assert await ticks(app) == expected
    assert (await app.schedules.get("hourly")).last == (at(expected[-1]) if expected else None)

    await run(app)
    clock.turn(50 * MINUTE)
    assert await app.schedules.fire() == 1
    assert await ticks(app) == [*expected, "03-01T06:00"]


async def test_catching_up_with_all_runs_one_after_the_other_unless_set_otherwise(app, clock):
    seen: list[str] = []

    @app.schedule(every("1h"), name="s", catch_up="all")
    async def handler(tick: Tick) -> None:
        seen.append(tick.at.strftime("%H"))

    await app.schedules.declare()
    clock.turn(5 * HOUR)
    await app.schedules.fire()
    assert (await app.queue("default").counts())["ready"] == 1

    await run(app)
    assert seen == ["01", "02", "03", "04", "05"]


async def test_catching_up_with_all_and_skipping_overlaps_exclude_each_other(memory):
    with pytest.raises(InvalidSchedule, match="queue or allow"):
        memory.schedule(every("1h"), name="s", catch_up="all", overlap="skip")(nothing(memory))


@pytest.mark.parametrize(("overlap", "expected"), [("skip", [40]), ("queue", each(10, 40)), ("allow", each(10, 40))])
async def test_ticks_late_by_less_than_a_minute_are_made_as_far_as_runs_may_overlap(app, clock, overlap, expected):
    reported: list[str] = []
    app.telemetry.on(lambda name, fields: reported.append(fields["detail"]), EventName.FIRED)
    await app.schedules.put("s", every("10s"), elsewhere(app), overlap=overlap, catch_up="skip")

    clock.turn(45 * SECOND)

    assert await app.schedules.fire() == len(expected)
    assert reported == [f"s 2026-03-01T00:00:{second}+00:00" for second in expected]
    assert (await app.schedules.get("s")).last == at("03-01T00:00:40")
    assert len(await everything(app)) == len(expected)


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("skip", [("05:00", 5)]), ("latest", [("04:00", 4)]), ("all", [])],
)
async def test_s48_ticks_that_get_no_run_are_reported_with_their_number(app, clock, catch_up, expected):
    reported: list[tuple[str, int]] = []
    app.telemetry.on(
        lambda name, fields: reported.append((fields["detail"][13:18], fields["count"])), EventName.RUN_MISSED
    )
    await app.schedules.put("s", every("1h"), elsewhere(app), catch_up=catch_up, expect_within="1h")
    await app.schedules.put("quiet", every("1h"), elsewhere(app), catch_up=catch_up)

    clock.turn(5 * HOUR + 10 * MINUTE)
    await app.schedules.fire()
    await app.schedules.fire()

    events = await alarms(app)
    assert [(event["tick"][11:16], event["count"]) for event in events] == reported == expected
    assert {(event["event"], event["schedule"], event["job"]) for event in events} <= {("missed", "s", None)}


async def test_a_long_time_of_missed_ticks_is_one_event(app, clock):
    await app.schedules.put("s", every("1s"), elsewhere(app), catch_up="skip", expect_within="1h")
    clock.turn(30 * DAY + MINUTE)

    await app.schedules.fire()

    [event] = await alarms(app)
    assert event["count"] >= 900


# -- while a run goes on


async def test_a_tick_is_skipped_as_long_as_the_run_before_is_not_over_whoever_holds_it(app, clock):
    store = await app.store()
    app.schedule(every("60s"), name="s", expect_within="10m")(nothing(app))
    await app.schedules.declare()
    clock.turn(MINUTE)
    assert await app.schedules.fire() == 1

    await take(store)
    clock.turn(MINUTE)
    assert await app.schedules.fire() == 0, "it runs"
    clock.turn(MINUTE)
    assert await app.schedules.fire() == 0, "its lease ran out, and was not taken back yet"
    assert len(await store.jobs.reap(10)) == 1
    clock.turn(MINUTE)
    assert await app.schedules.fire() == 0, "it is ready again"
    await run(app)
    clock.turn(MINUTE)
    assert await app.schedules.fire() == 1

    assert await ticks(app) == ["03-01T00:01", "03-01T00:05"]
    assert [event["tick"][11:16] for event in await alarms(app)] == ["00:02", "00:03", "00:04"]


async def test_the_tick_before_is_one_that_had_a_run(app, clock):
    seen: list[tuple[str, str | None]] = []

    @app.schedule(every("60s"), name="s")
    async def handler(tick: Tick) -> None:
        seen.append((tick.at.strftime("%M"), None if tick.previous is None else tick.previous.strftime("%M")))

    await app.schedules.declare()
    await pass_time(app, clock, 3 * MINUTE, MINUTE)
    await run(app)
    await pass_time(app, clock, MINUTE, MINUTE)
    await run(app)

    assert seen == [("01", None), ("04", "01")]


async def test_queued_runs_come_one_after_the_other_whatever_the_queue_says_of_its_keys(app, clock):
    app.queue("default", per_key=3)
    await app.schedules.put("s", every("60s"), elsewhere(app), overlap="queue")

    await pass_time(app, clock, 3 * MINUTE, MINUTE)

    counts = await app.queue("default").counts()
    assert (counts["ready"], counts["waiting"]) == (1, 2)


# -- clocks that jump, and clocks that differ


@pytest.mark.parametrize(
    ("catch_up", "jump", "first"),
    [("skip", HOUR, 120), ("latest", HOUR, 120), ("all", HOUR, 70), ("latest", DAY, 1500)],
)
async def test_a_jump_forward_makes_what_is_caught_up_with_and_all_later_ticks(app, clock, catch_up, jump, first):
    await app.schedules.put("s", every("10m"), elsewhere(app), overlap="allow", catch_up=catch_up)
    await pass_time(app, clock, HOUR, 10 * MINUTE)
    clock.turn(jump)
    await app.schedules.fire()
    await pass_time(app, clock, HOUR, 10 * MINUTE)

    expected = [*range(10, 70, 10), *range(first, 60 + jump // MINUTE + 70, 10)]
    assert await ticks(app) == [moved(minutes) for minutes in expected]


async def test_a_jump_forward_by_a_day_is_caught_up_with_to_the_cap(app, clock):
    await app.schedules.put("s", every("10m"), elsewhere(app), overlap="allow", catch_up="all")
    clock.turn(DAY)

    assert await app.schedules.fire() == MAX_CAUGHT_UP + 1
    assert await ticks(app, limit=500) == [moved(minutes) for minutes in range(1440 - 10 * MAX_CAUGHT_UP, 1450, 10)]


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all"])
@pytest.mark.parametrize("jump", [HOUR, DAY])
async def test_a_jump_back_makes_no_tick_twice_and_loses_none(app, clock, jump, catch_up):
    await app.schedules.put("s", every("30m"), elsewhere(app), overlap="allow", catch_up=catch_up)
    await pass_time(app, clock, 2 * HOUR, 30 * MINUTE)
    clock.back(jump)
    await app.schedules.put("s", every("30m"), elsewhere(app), overlap="allow", catch_up=catch_up, jitter="1s")
    await pass_time(app, clock, jump + 2 * HOUR, MINUTE)

    made = await ticks(app, limit=500)
    assert len(made) >= 8  # more on SQLite, whose time goes on by the steady clock
    assert made == [moved(30 * n) for n in range(1, len(made) + 1)]


async def test_s46_many_whose_clocks_differ_fire_each_tick_once_while_they_come_and_go(make):
    count, minutes = (20, 60) if LONG else (10, 12)
    clocks = [begin(skew=10 * SECOND * n // (count - 1) - 5 * SECOND) for n in range(count)]
    apps = [make(clock=clock) for clock in clocks]
    by_the_clock = make(clock=begin())
    by_the_clock.schedule(every("60s"), name="s", overlap="allow")(nothing(by_the_clock))
    await by_the_clock.schedules.declare()
    for app in apps:
        app.schedule(every("60s"), name="s", overlap="allow")(nothing(app))

    total = 0
    for minute in range(minutes):
        leaving = minute % count
        for clock in clocks:
            clock.turn(MINUTE)
        total += sum(await asyncio.gather(*(app.schedules.fire() for app in apps)))
        await apps[leaving].close()
        apps[leaving] = make(clock=clocks[leaving])

    assert total == minutes
    assert await ticks(by_the_clock) == [moved(minute) for minute in range(1, minutes + 1)]


async def test_a_schedule_that_starts_later_than_before_fires_nothing_before(app, clock):
    await app.schedules.put("s", every("1h"), elsewhere(app), overlap="allow")
    clock.turn(HOUR + MINUTE)
    await app.schedules.put("s", every("1h"), elsewhere(app), overlap="allow", start=at("03-01T03:00"))

    await pass_time(app, clock, 4 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T03:00", "03-01T04:00", "03-01T05:00"]


async def test_a_tick_that_is_due_outlives_a_change_of_the_rule_if_the_new_one_has_it_too(app, clock):
    for name in ("both", "old"):
        await app.schedules.put(name, every("30m"), elsewhere(app), overlap="allow")
    clock.turn(30 * MINUTE)
    await app.schedules.put("both", every("10m"), elsewhere(app), overlap="allow")
    await app.schedules.put("old", every("1h"), elsewhere(app), overlap="allow")

    await app.schedules.fire()

    assert [(job.headers["schedule"], job.headers["tick"][11:16]) for job in await everything(app)] == [
        ("both", "00:30")
    ]
