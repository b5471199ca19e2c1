"""Many schedules, and a long time: each tick one job, in time, and no more work than ticks.

``PACKHORSE_TEST_LONG=1`` is the full size; ``-s`` shows what was measured.
"""

import asyncio
import os
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from packhorse import App, cron, every
from packhorse.model import limits
from packhorse.schedules.firing import put
from packhorse.schedules.schedule import Schedule, ScheduleTarget, time_of
from packhorse.telemetry.names import EventName
from packhorse.testing import TurnedClock
from tests.features.factories import DAY, HOUR, MINUTE, SECOND, everything

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
SCHEDULES, AHEAD = (10_000, 20) if LONG else (1200, 3)
DAILY = 1000 if LONG else 10
SECONDS = 60 if LONG else 4
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


async def fill(app: App, schedules: list[Schedule], begin: datetime = BEGIN) -> None:
    records = (await app.store()).records
    for first in range(0, len(schedules), limits.ITEMS):
        some = schedules[first : first + limits.ITEMS]
        await records.put([put(schedule, due=schedule.due(begin), expect=0) for schedule in some])


def daily(number: int, hour: int, **policies) -> Schedule:
    return Schedule(name=f"s{number}", rule=cron(hour=hour), what=ScheduleTarget(task="nothing"), **policies)


async def test_schedules_due_in_the_same_second_are_all_fired(app, clock):
    await fill(app, [daily(number, 1) for number in range(SCHEDULES)])
    clock.turn(HOUR)

    assert await app.schedules.fire() == SCHEDULES
    assert await app.schedules.fire() == 0
    assert (await app.queue("default").counts())["ready"] == SCHEDULES


class Fired:
    """How many ticks a worker reported to have fired."""

    def __init__(self, app: App, enough: int) -> None:
        self._left, self._all = enough, asyncio.Event()
        app.telemetry.on(self, EventName.FIRED)

    def __call__(self, *_: object) -> None:
        self._left -= 1
        if not self._left:
            self._all.set()

    async def all(self, patience: float) -> None:
        async with asyncio.timeout(patience):
            await self._all.wait()


async def late(app: App) -> list[float]:
    """By how many seconds jobs were made after their ticks, soonest first."""
    jobs = await everything(app, limit=1000)
    return sorted(
        (time_of(job.stored.enqueued_at) - datetime.fromisoformat(job.headers["tick"])).total_seconds() for job in jobs
    )


async def test_one_worker_fires_all_that_is_due_in_the_same_second_within_five(live, kind):
    now = time_of(await (await live.store()).ping())
    moment = now + timedelta(seconds=AHEAD)
    what, rule = ScheduleTarget(task="nothing", queue="elsewhere"), every("1d", start=moment)
    await fill(live, [Schedule(name=f"s{number}", rule=rule, what=what) for number in range(SCHEDULES)], now)
    fired = Fired(live, SCHEDULES)
    async with live.worker():
        assert time_of(await (await live.store()).ping()) < moment, "all is there before"
        await fired.all(AHEAD + 60)

    seconds = await late(live)
    print(f"{kind}: {len(seconds)} due at once, the last made after {seconds[-1]:.2f} s")  # noqa: T201
    assert len(seconds) == SCHEDULES
    assert seconds[-1] < 5


async def test_with_a_worker_that_is_idle_a_tick_is_late_by_a_second_at_most(live, kind):
    fired = Fired(live, 20 * SECONDS)
    async with live.worker():
        for number in range(20):
            await live.schedules.put(
                f"s{number}", every("1s"), live.queue("elsewhere").call("nothing"), overlap="allow"
            )
        await fired.all(60 + SECONDS)

    seconds = await late(live)
    p99 = seconds[len(seconds) * 99 // 100]
    print(f"{kind}: of {len(seconds)} ticks p99 {p99:.2f} s")  # noqa: T201
    assert seconds[0] >= 0
    assert p99 <= 1


async def test_a_year_of_daily_schedules_has_every_day_once(tmp_path, clock):
    app = App(f"sqlite:///{tmp_path}/year.db", clock=clock)
    await fill(app, [daily(number, number % 24, overlap="allow") for number in range(DAILY)])
    total, begin = 0, time.monotonic()
    for _ in range(365):
        clock.turn(DAY)
        total += await app.schedules.fire()
    took = time.monotonic() - begin
    print(f"sqlite: {total} ticks of a year in {took:.0f} s")  # noqa: T201
    jobs = [] if LONG else await everything(app, limit=1000)
    await app.close()

    assert total == 365 * DAILY
    assert took < 60
    if not LONG:
        made = Counter((job.headers["schedule"], job.headers["tick"]) for job in jobs)
        assert len(made) == 365 * DAILY
        assert set(made.values()) == {1}


async def test_stores_whose_clocks_differ_fire_each_tick_once(make):
    clocks = [TurnedClock(round(BEGIN.timestamp()) * SECOND + skew * SECOND) for skew in (-5, -3, 0, 2, 5)]
    apps = [make(clock=clock) for clock in clocks]
    await fill(apps[0], [daily(number, 1, overlap="allow") for number in range(5)])
    total = 0
    for _ in range(4 * 60):
        for clock, app in zip(clocks, apps, strict=True):
            clock.turn(MINUTE)
            total += await app.schedules.fire()

    assert total == 5
