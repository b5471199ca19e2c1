"""The nightly example: by the clocks of Paris, for the time it was meant for, and reports by tenant."""

from datetime import UTC, datetime, timedelta

import pytest

from examples.nightly.reports import Reports
from examples.nightly.tasks import Baskets, cleanup, count
from packhorse import App
from packhorse.testing import TurnedClock
from tests.conftest import kinds
from tests.examples.turning import SECOND, work

BEGIN = datetime(2026, 3, 27, 12, tzinfo=UTC)
HOUR = 3600 * SECOND


@pytest.fixture(params=[kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


async def pass_hours(app: App, clock: TurnedClock, hours: int, queue: str) -> None:
    for _ in range(hours):
        clock.turn(HOUR)
        if await app.schedules.fire():
            await work(app, clock, queue)


async def test_old_baskets_are_removed_once_a_night_by_the_clocks_of_paris(app: App, clock: TurnedClock):
    baskets = Baskets()
    task = cleanup(app, baskets)
    await app.schedules.declare()
    for night in range(4):  # 28 March to 31 March; the clocks go forward on the 29th
        baskets.left = {"old": BEGIN - timedelta(days=30), "new": BEGIN + timedelta(days=night)}
        await pass_hours(app, clock, 24, "nightly")
        assert list(baskets.left) == ["new"]
    done = await app.find(task=task.name, state="done")

    assert sorted(job.headers["tick"][5:16] for job in done.items) == [
        "03-28T01:00",
        "03-29T01:00",
        "03-30T00:00",
        "03-31T00:00",
    ]


async def test_baskets_are_counted_every_minute(app: App, clock: TurnedClock):
    baskets = Baskets()
    task = count(app, baskets)
    await app.schedules.declare()
    for minute in range(5):
        baskets.left[f"basket {minute}"] = BEGIN
        clock.turn(60 * SECOND)
        await app.schedules.fire()
        await work(app, clock, "nightly")
    done = await app.find(task=task.name, state="done")

    counted = {job.headers["tick"][11:16]: job.stored.result for job in done.items}
    assert counted == {f"12:0{n}": f"{n}".encode() for n in range(1, 6)}


async def test_a_run_by_hand_cleans_up_for_the_time_it_is_reported(app: App, clock: TurnedClock):
    baskets = Baskets()
    cleanup(app, baskets)
    await app.schedules.declare()
    baskets.left = {"old": BEGIN - timedelta(days=20), "new": BEGIN - timedelta(days=8)}

    await app.schedules.run("nightly-cleanup", at=BEGIN - timedelta(days=10))
    await work(app, clock, "nightly")

    assert list(baskets.left) == ["new"]


async def test_tenants_have_their_reports_by_their_own_clocks(app: App, clock: TurnedClock):
    sent: list[str] = []

    @app.task(name="report")
    async def report(tenant: str) -> None:
        sent.append(tenant)

    reports = Reports(app, report)
    await reports.subscribe("kyoto", "Asia/Tokyo")
    await reports.subscribe("lyon", "Europe/Paris")
    await reports.subscribe("boston", "America/New_York")
    assert await reports.unsubscribe("boston")
    assert not await reports.unsubscribe("boston")

    await pass_hours(app, clock, 36, "default")  # until Sunday midnight UTC, 09:00 on Monday in Tokyo
    clock.turn(HOUR // 6)
    await work(app, clock, "default")
    assert sent == []
    await pass_hours(app, clock, 24, "default")
    clock.turn(HOUR // 6)
    await work(app, clock, "default")
    assert sent == ["kyoto"]
    await pass_hours(app, clock, 8, "default")
    assert sent == ["kyoto", "lyon"]
