"""Many schedules, and a long time: each tick one job, and no more work than ticks.

``PACKHORSE_SCHEDULES=10000`` is the full size at one moment, ``PACKHORSE_DAILY=1000`` that over a year.
"""

import os
from collections import Counter
from datetime import UTC, datetime

import pytest

from packhorse import App, cron
from packhorse.model import caps
from packhorse.schedules.firing import put
from packhorse.schedules.schedule import Schedule, What
from packhorse.testing.clock import TurnedClock
from tests.features.making import DAY, HOUR, MINUTE, SECOND, everything

SCHEDULES = int(os.environ.get("PACKHORSE_SCHEDULES", "1200"))
DAILY = int(os.environ.get("PACKHORSE_DAILY", "10"))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


async def fill(app: App, schedules: list[Schedule]) -> None:
    records = (await app.store()).records
    for first in range(0, len(schedules), caps.ITEMS):
        some = schedules[first : first + caps.ITEMS]
        await records.put([put(schedule, due=schedule.due(BEGIN), expect=0) for schedule in some])


def daily(number: int, hour: int, **policies) -> Schedule:
    return Schedule(name=f"s{number}", rule=cron(hour=hour), what=What(task="nothing"), **policies)


async def test_schedules_due_in_the_same_second_are_all_fired(app, clock):
    await fill(app, [daily(number, 1) for number in range(SCHEDULES)])
    clock.turn(HOUR)

    assert await app.schedules.fire() == SCHEDULES
    assert await app.schedules.fire() == 0
    assert (await app.queue("default").counts())["ready"] == SCHEDULES


async def test_a_year_of_daily_schedules_has_every_day_once(tmp_path, clock):
    app = App(f"sqlite:///{tmp_path}/year.db", clock=clock)
    await fill(app, [daily(number, number % 24, overlap="allow") for number in range(DAILY)])
    total = 0
    for _ in range(365):
        clock.turn(DAY)
        total += await app.schedules.fire()

    assert total == 365 * DAILY
    if DAILY <= 10:
        made = Counter((job.headers["schedule"], job.headers["tick"]) for job in await everything(app, limit=1000))
        assert len(made) == 365 * DAILY
        assert set(made.values()) == {1}
    await app.close()


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
