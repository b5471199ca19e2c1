"""Schedules: every tick exactly one job, whoever fires, whenever."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from packhorse import App, InvalidInput, Tick, cron, every
from packhorse.errors import InvalidSchedule, ScheduleNotFound
from packhorse.model.effect import Put
from packhorse.schedules.firing import MOST
from packhorse.schedules.schedule import KIND
from packhorse.telemetry.names import Name
from packhorse.testing.clock import TurnedClock
from tests.features.making import DAY, HOUR, MINUTE, SECOND, everything, run

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


@pytest.fixture
def seen() -> list[Tick]:
    return []


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


async def ticks(app: App, **wanted) -> list[str]:
    """The ticks that have a job, in their order."""
    return sorted(str(job.headers["tick"])[5:16] for job in await everything(app, **wanted) if "tick" in job.headers)


async def pass_time(app: App, clock: TurnedClock, total: int, step: int) -> None:
    """Let time pass in steps, firing what falls due, as a living worker does."""
    for _ in range(total // step):
        clock.turn(step)
        await app.schedules.fire()


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


async def test_s45_a_cron_rule_goes_by_the_clocks_of_its_zone(app, clock, seen):
    @app.schedule(cron("0 2 * * *", tz="Europe/Paris"))
    async def nightly(tick: Tick) -> None:
        seen.append(tick)

    await app.schedules.declare()
    for _ in range(31 * 24 - 1):
        clock.turn(HOUR)
        if await app.schedules.fire():
            await run(app)

    assert len(seen) == 31
    assert {tick.at.strftime("%H:%M") for tick in seen if tick.at < at("03-29")} == {"01:00"}
    assert {tick.at.strftime("%H:%M") for tick in seen if tick.at > at("03-29T12:00")} == {"00:00"}
    assert [tick.at for tick in seen if at("03-29") < tick.at < at("03-30T00:00")] == [at("03-29T01:00")]
    assert {(tick.cron, tick.zone) for tick in seen} == {("0 2 * * *", "Europe/Paris")}


async def test_s46_of_many_that_fire_at_once_one_makes_the_job(make, clock):
    apps = [make(clock=clock) for _ in range(6)]
    for app in apps:
        app.schedule(every("60s"), name="refresh", overlap="allow")(_nothing(app))
    await asyncio.gather(*(app.schedules.declare() for app in apps))

    total = 0
    for _ in range(20):
        clock.turn(MINUTE)
        total += sum(await asyncio.gather(*(app.schedules.fire() for app in apps)))

    assert total == 20
    assert len(await ticks(apps[0])) == 20


def _nothing(app: App):
    @app.task(name="nothing")
    async def nothing() -> None: ...

    return nothing


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


async def test_decorators_stack_and_tasks_keep_what_was_said_about_them(app, clock):
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


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("skip", []), ("latest", ["03-01T05:00"]), ("all", [f"03-01T0{n}:00" for n in range(1, 6)])],
)
async def test_ticks_that_nobody_fired_in_time_are_caught_up_with_as_declared(app, clock, catch_up, expected):
    app.schedule(cron("@hourly"), name="hourly", catch_up=catch_up, overlap="allow")(_nothing(app))
    await app.schedules.declare()

    clock.turn(5 * HOUR + 10 * MINUTE)
    await app.schedules.fire()
    assert await ticks(app) == expected

    clock.turn(50 * MINUTE)
    await app.schedules.fire()
    assert await ticks(app) == [*expected, "03-01T06:00"]


async def test_what_is_late_by_less_than_a_minute_was_not_missed(app, clock):
    app.schedule(every("10s"), name="often", catch_up="skip", overlap="allow")(_nothing(app))
    await app.schedules.declare()

    clock.turn(45 * SECOND)

    assert await app.schedules.fire() == 4


async def test_catching_up_with_all_has_an_end(app, clock):
    app.schedule(every("60s"), name="often", catch_up="all", overlap="allow")(_nothing(app))
    await app.schedules.declare()

    clock.turn(7 * DAY)

    assert await app.schedules.fire() in (MOST, MOST + 1)
    assert (await ticks(app, limit=1000))[-1] == "03-08T00:00"


@pytest.mark.parametrize("jump", [HOUR, DAY])
async def test_a_jump_of_the_clock_makes_no_tick_twice_and_loses_no_later_one(app, clock, jump):
    app.schedule(every("10m"), name="often", overlap="allow")(_nothing(app))
    await app.schedules.declare()
    await pass_time(app, clock, HOUR, 10 * MINUTE)
    clock.turn(jump)
    await app.schedules.fire()
    await pass_time(app, clock, HOUR, 10 * MINUTE)

    made = await ticks(app)
    assert len(set(made)) == len(made) == 13


# -- overlap


@pytest.mark.parametrize(("overlap", "runs"), [("skip", 1), ("queue", 3), ("allow", 3)])
async def test_a_run_that_is_not_over_when_the_next_is_due(app, clock, overlap, runs):
    app.schedule(every("60s"), name="slow", overlap=overlap)(_nothing(app))
    await app.schedules.declare()

    await pass_time(app, clock, 3 * MINUTE, MINUTE)

    jobs = await everything(app)
    assert len(jobs) == runs
    ready = [job for job in jobs if job.status == "ready"]
    assert len(ready) == {"skip": 1, "queue": 1, "allow": 3}[overlap]

    await run(app)
    await pass_time(app, clock, MINUTE, MINUTE)
    assert len(await everything(app)) == runs + 1


# -- jitter, start, end


async def test_jitter_spreads_runs_and_is_the_same_whoever_fires(app, clock):
    for n in range(20):
        await app.schedules.put(f"s{n}", cron("@hourly"), _call(app), jitter="10m", overlap="allow")

    clock.turn(HOUR)
    await app.schedules.fire()

    due = {job.since for job in await everything(app)}
    assert len(due) > 15
    assert all(at("03-01T01:00") <= moment <= at("03-01T01:10") for moment in due if moment is not None)


def _call(app: App):
    return app.queue("default").call("elsewhere", {"tenant": 42})


async def test_a_schedule_lives_between_its_start_and_its_end(app, clock):
    await app.schedules.put(
        "short", every("1h"), _call(app), start=at("03-01T03:00"), end=at("03-01T05:00"), overlap="allow"
    )

    await pass_time(app, clock, 8 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T03:00", "03-01T04:00", "03-01T05:00"]
    assert await app.schedules.next("short") == []


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


async def test_a_paused_schedule_fires_nothing_and_makes_up_for_nothing(app, clock):
    await app.schedules.put("hourly", every("1h"), _call(app), catch_up="all", overlap="allow")
    await app.schedules.pause("hourly")
    assert await app.schedules.next("hourly") == []
    await pass_time(app, clock, 5 * HOUR, HOUR)
    assert await ticks(app) == []

    await app.schedules.resume("hourly")
    await pass_time(app, clock, HOUR, HOUR)
    assert await ticks(app) == ["03-01T06:00"]


async def test_putting_again_changes_the_rule_and_keeps_the_pause(app, clock):
    await app.schedules.put("s", every("1h"), _call(app))
    await app.schedules.pause("s")
    assert (await app.schedules.put("s", every("2h"), _call(app))).paused
    await app.schedules.resume("s")
    assert await app.schedules.next("s", 1) == [at("03-01T02:00")]


async def test_a_removed_schedule_is_gone(app, clock):
    await app.schedules.put("s", every("1h"), _call(app))
    assert await app.schedules.remove("s")
    assert not await app.schedules.remove("s")
    with pytest.raises(ScheduleNotFound, match="schedules ls"):
        await app.schedules.get("s")
    for verb in (app.schedules.pause, app.schedules.resume, app.schedules.next, app.schedules.run):
        with pytest.raises(ScheduleNotFound):
            await verb("s")


async def test_schedules_are_found_by_the_beginning_of_their_names_page_by_page(app):
    for n in range(5):
        await app.schedules.put(f"report:{n}", every("1h"), _call(app))
    await app.schedules.put("other", every("1h"), _call(app))

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
    old.schedule(every("1h"), name="s")(_nothing(old))
    new.schedule(every("2h"), name="s")(_nothing(new))

    for app in (old, new, old, new, old):  # a rolling deploy, restarting in turn
        await app.schedules.declare()

    schedule = await old.schedules.get("s")
    assert (schedule.rule, schedule.release) == (every("2h"), "1.10")


async def test_a_higher_release_disables_what_it_no_longer_declares_and_a_lower_one_does_not(make, clock):
    old, new = make(clock=clock, release="1"), make(clock=clock, release="2")
    old.schedule(every("1h"), name="gone")(_nothing(old))
    for app in (old, new):
        app.schedule(every("1h"), name="kept")(_nothing(app) if app is new else app.registry.task("nothing"))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept", "gone"]
    assert await old.schedules.declare() == []

    assert (await new.schedules.get("gone")).disabled
    assert not (await new.schedules.get("kept")).disabled


async def test_without_a_release_nothing_is_disabled_until_sync_says_so(make, clock):
    old, new = make(clock=clock), make(clock=clock)
    old.schedule(every("1h"), name="gone")(_nothing(old))
    new.schedule(every("1h"), name="kept")(_nothing(new))
    await new.schedules.put("by-hand", every("1h"), _call(new))
    await old.schedules.declare()
    assert await new.schedules.declare() == ["kept"]
    assert await new.schedules.next("gone", 1)

    assert await new.schedules.sync() == ["gone"]
    assert await new.schedules.next("gone", 1) == []
    assert await new.schedules.next("by-hand", 1)


async def test_declaring_again_changes_nothing_and_forgets_no_tick_that_is_due(make, clock):
    app = make(clock=clock)
    app.schedule(every("1h"), name="s", overlap="allow")(_nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    assert await app.schedules.declare() == []
    changed = make(clock=clock)
    changed.schedule(every("1h"), name="s", overlap="allow", expect_within="5m")(_nothing(changed))
    assert await changed.schedules.declare() == ["s"]

    assert await app.schedules.fire() == 1


# -- what goes wrong


async def test_one_schedule_that_cannot_be_fired_stops_no_other(app, clock):
    await app.schedules.put("good", every("1h"), _call(app), overlap="allow")
    store, told = await app.store(), []
    app.telemetry.on(lambda name, fields: told.append(fields["detail"]), Name.DUTY_FAILED)
    await store.records.put([Put(KIND, "bad", b'{"rule": "nonsense"}', due=clock.now() + 1)])

    await pass_time(app, clock, 3 * HOUR, HOUR)

    assert await ticks(app) == ["03-01T01:00", "03-01T02:00", "03-01T03:00"]
    assert told == ["fire bad"] * 3


async def test_a_failed_run_is_tried_again_and_dies_like_any_job(app, clock):
    @app.schedule(every("1d"))
    @app.task(name="broken", attempts=2)
    async def broken() -> None:
        raise RuntimeError("no")

    await app.schedules.declare()
    clock.turn(DAY)
    await app.schedules.fire()
    for _ in range(3):
        await run(app)
        clock.turn(10 * SECOND)

    [job] = await everything(app)
    assert (job.status, job.attempt) == ("dead", 2)


async def test_s48_a_run_that_does_not_end_in_time_is_told_once(app, clock):
    told: list[tuple[Name, str]] = []
    app.telemetry.on(lambda name, fields: told.append((name, fields["detail"])), Name.RUN_LATE, Name.RUN_MISSED)
    app.schedule(every("1h"), name="late", expect_within="5m")(_nothing(app))
    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await app.schedules.watch()
    assert told == []

    clock.turn(5 * MINUTE)
    await app.schedules.watch()
    await app.schedules.watch()

    assert told == [(Name.RUN_LATE, "late 2026-03-01T01:00:00+00:00")]
    [event] = await (await app.store()).streams.read("packhorse.schedules")
    assert json.loads(event.data)["event"] == "late"


async def test_s48_a_run_that_failed_or_was_never_made_is_missed_and_one_that_ended_well_is_not(app, clock):
    told: list[str] = []
    app.telemetry.on(
        lambda name, fields: told.append(f"{name.value} {fields['detail'][:4]}"), Name.RUN_MISSED, Name.RUN_LATE
    )

    @app.schedule(every("1h"), name="good", expect_within="5m")
    @app.task(name="good")
    async def good() -> None: ...

    @app.schedule(every("1h"), name="dead", expect_within="5m")
    @app.task(name="dead", attempts=1)
    async def dead() -> None:
        raise RuntimeError("no")

    await app.schedules.declare()
    clock.turn(HOUR)
    await app.schedules.fire()
    await run(app)
    clock.turn(10 * MINUTE)
    await app.schedules.watch()

    assert told == ["run_missed dead"]


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        ({"catch_up": "none"}, "skip, latest, all"),
        ({"overlap": "never"}, "skip, queue, allow"),
        ({"gap": "later"}, "shift, skip"),
        ({"fold": "last"}, "first, both"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),
        ({"start": BEGIN, "end": BEGIN - timedelta(1)}, "before the start"),
        ({"jitter": "soon"}, "duration"),
    ],
)
async def test_a_policy_that_does_not_exist_is_refused_when_declared(memory, policies, why):
    with pytest.raises(InvalidInput, match=why):
        memory.schedule(every("1h"), name="s", **policies)(_nothing(memory))


async def test_what_cannot_be_scheduled_is_refused_when_declared(memory):
    nothing = _nothing(memory)
    with pytest.raises(InvalidSchedule, match="no rule"):
        memory.schedule()(nothing)
    with pytest.raises(InvalidSchedule, match="same rule twice"):
        memory.schedule(every("1h"), every("1h"))(nothing)
    with pytest.raises(InvalidSchedule, match="cron"):
        memory.schedule("0 * * * *")(nothing)
    memory.schedule(every("1h"))(nothing)
    with pytest.raises(InvalidSchedule, match="another of this name"):
        memory.schedule(every("2h"))(nothing)
    with pytest.raises(InvalidSchedule, match="more than the tick"):

        @memory.schedule(every("1h"))
        async def greedy(tick: Tick, other: int) -> None: ...

    with pytest.raises(InvalidSchedule, match="own business"):
        await memory.schedules.put("s", every("1h"), nothing.using(delay="1h").call())
    with pytest.raises(InvalidSchedule, match="exclude each other"):
        await memory.schedules.put("s", every("1h"), nothing.using(key="k").call(), overlap="queue")
