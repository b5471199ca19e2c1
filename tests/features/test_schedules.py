"""Schedules: every tick exactly one job, whoever fires, whenever."""

import asyncio
from datetime import timedelta

import pytest

from packhorse import Tick, cron, every
from packhorse.schedules.firing import MAX_CAUGHT_UP
from packhorse.testing import TurnedClock
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything, run
from tests.features.scheduling import BEGIN, at, begin, elsewhere, moved, nothing, pass_time, ticks


@pytest.fixture
def clock() -> TurnedClock:
    return begin()


@pytest.fixture
def seen() -> list[Tick]:
    return []


async def test_s44_an_interval_fires_at_each_of_its_moments(app, clock, seen):
    @app.schedule(every("60s"))
    async def refresh(tick: Tick) -> None:
        seen.append(tick)

    await app.schedules.declare()
    for _ in range(10):
        clock.turn(MINUTE)
        assert await app.schedules.fire() == 1
        await run(app)

    assert [tick.at for tick in seen] == [BEGIN + timedelta(minutes=n) for n in range(1, 11)]
    assert [tick.previous for tick in seen] == [None, *(tick.at for tick in seen[:-1])]


@pytest.mark.parametrize(
    "expected",
    [
        ["03-28T01:00", "03-29T01:00", "03-30T00:00", "03-31T00:00"],  # on the 29th the clocks jump over two
        ["10-24T00:00", "10-25T00:00", "10-26T01:00", "10-27T01:00"],  # on the 25th two comes twice
    ],
)
async def test_s45_a_cron_rule_goes_by_the_clocks_of_its_zone(app, clock, seen, expected):
    @app.schedule(cron("0 2 * * *", tz="Europe/Paris"))
    async def nightly(tick: Tick) -> None:
        seen.append(tick)

    clock.to(round((at(expected[0]) - timedelta(hours=12)).timestamp()) * SECOND)
    await app.schedules.declare()
    for _ in range(4 * 24):
        clock.turn(HOUR)
        if await app.schedules.fire():
            await run(app)

    assert [tick.at for tick in seen] == [at(night) for night in expected]
    assert {(tick.cron, tick.zone) for tick in seen} == {("0 2 * * *", "Europe/Paris")}


async def test_s46_of_many_that_fire_at_once_one_makes_the_job(make, clock):
    apps = [make(clock=clock) for _ in range(10)]
    for app in apps:
        app.schedule(every("60s"), name="refresh", overlap="allow")(nothing(app))
    await asyncio.gather(*(app.schedules.declare() for app in apps))

    total = 0
    for _ in range(20):
        clock.turn(MINUTE)
        total += sum(await asyncio.gather(*(app.schedules.fire() for app in apps)))

    assert total == 20
    assert await ticks(apps[0]) == [moved(minute) for minute in range(1, 21)]


async def test_several_rules_of_a_handler_fire_each_on_its_own(app, clock):
    words: list[str] = []

    @app.schedule(cron("0 0 * * *"), cron("0 */6 * * *"), cron("30 * * * *"))
    async def routed(tick: Tick) -> None:
        match tick.cron:
            case "0 0 * * *":
                words.append("daily")
            case "0 */6 * * *":
                words.append("six")
            case other:
                words.append(other)

    await app.schedules.declare()
    for _ in range(24):
        clock.turn(HOUR)
        await app.schedules.fire()
        await run(app)

    assert (words.count("daily"), words.count("six"), words.count("30 * * * *")) == (1, 4, 24)


async def test_decorators_stack_and_tasks_keep_what_was_set_for_them(app, clock):
    @app.schedule(every("1h"), name="hourly")
    @app.schedule(every("1d"), name="daily", catch_up="all")
    @app.task(name="report", queue="reports", priority=3, attempts=7)
    async def report() -> None: ...

    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()

    [job] = await everything(app)
    assert (job.task, job.queue, job.priority) == ("report", "reports", 3)
    assert [schedule.name for schedule in (await app.schedules.find()).items] == ["daily", "hourly"]


# -- missed ticks


async def test_catching_up_with_all_has_an_end(app, clock):
    app.schedule(every("60s"), name="often", catch_up="all", overlap="allow")(nothing(app))
    await app.schedules.declare()

    clock.turn(7 * DAY)

    assert await app.schedules.fire() in (MAX_CAUGHT_UP, MAX_CAUGHT_UP + 1)
    assert (await ticks(app, limit=1000))[-1] == "03-08T00:00"


# -- overlap


@pytest.mark.parametrize(("overlap", "runs"), [("skip", 1), ("queue", 3), ("allow", 3)])
async def test_a_run_that_is_not_over_when_the_next_is_due(app, clock, overlap, runs):
    app.schedule(every("60s"), name="slow", overlap=overlap)(nothing(app))
    await app.schedules.declare()

    await pass_time(app, clock, 3 * MINUTE, MINUTE)

    jobs = await everything(app)
    assert len(jobs) == runs
    ready = [job for job in jobs if job.state == "ready"]
    assert len(ready) == {"skip": 1, "queue": 1, "allow": 3}[overlap]

    await run(app)
    await pass_time(app, clock, MINUTE, MINUTE)
    assert len(await everything(app)) == runs + 1


# -- jitter, start, end


async def test_jitter_spreads_runs_and_is_the_same_whoever_fires(app, clock):
    for n in range(20):
        await app.schedules.put(f"s{n}", cron("@hourly"), elsewhere(app), jitter="10m", overlap="allow")

    clock.turn(HOUR)
    await app.schedules.fire()

    due = {job.due_at or job.ready_at for job in await everything(app)}
    assert len(due) > 15
    assert all(at("03-01T01:00") <= moment <= at("03-01T01:10") for moment in due if moment is not None)


async def test_a_schedule_lives_between_its_start_and_its_end(app, clock):
    await app.schedules.put(
        "short", every("1h"), elsewhere(app), start=at("03-01T03:00"), end=at("03-01T05:00"), overlap="allow"
    )

    await pass_time(app, clock, 8 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T03:00", "03-01T04:00", "03-01T05:00"]
    assert await app.schedules.next("short") == []
