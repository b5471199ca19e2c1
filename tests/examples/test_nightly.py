"""The nightly example: by the clocks of Paris, for the time it was meant for, and reports by tenant."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from examples.nightly.reports import Reports
from examples.nightly.site import Site, text
from examples.nightly.tasks import aggregation, cleanup, count, health_check
from packhorse import Alert, App, Missed
from packhorse.testing import TurnedClock, run_until_idle
from tests.conftest import kinds
from tests.examples.turning import SECOND, work

BEGIN = datetime(2026, 3, 27, 12, tzinfo=UTC)
HOUR = 3600 * SECOND


@pytest.fixture(params=[kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site.db")


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(round(BEGIN.timestamp()) * SECOND)


async def pass_hours(app: App, clock: TurnedClock, hours: int, queue: str) -> None:
    for _ in range(hours):
        clock.turn(HOUR)
        if await app.schedules.fire():
            await work(app, clock, queue)


def fill(site: Site, now: datetime) -> None:
    """One row of each kind that is to go or to be archived, and one that is to stay."""
    old, new = text(now - timedelta(days=91)), text(now + timedelta(days=1))
    for name, moment in (("old", old), ("new", new)):
        site.execute("insert or replace into invitations values (?, ?)", f"{name}@example.org", moment)
        site.execute("insert or replace into sessions values (?, ?)", name, moment)
        site.execute("insert or replace into projects values (?, ?, null)", name, moment)


def archived(site: Site) -> list[tuple[object, ...]]:
    return site.execute("select name, archived_at is not null from projects order by name")


async def test_the_site_is_cleaned_up_once_a_night_by_the_clocks_of_paris(app: App, clock: TurnedClock, site: Site):
    task = cleanup(app, site)
    await app.schedules.declare()
    for night in range(4):  # 28 March to 31 March; the clocks go forward on the 29th
        fill(site, BEGIN + timedelta(days=night))
        await pass_hours(app, clock, 24, "nightly")
        assert site.execute("select email from invitations") == [("new@example.org",)]
        assert site.execute("select token from sessions") == [("new",)]
        assert archived(site) == [("new", 0), ("old", 1)]
    done = await app.find(task=task.name, state="done")

    assert sorted(job.headers["tick"][5:16] for job in done.items) == [
        "03-28T01:00",
        "03-29T01:00",
        "03-30T00:00",
        "03-31T00:00",
    ]


async def test_events_are_counted_by_day_every_six_hours_and_a_second_run_changes_no_count(
    app: App, clock: TurnedClock, site: Site
):
    task = aggregation(app, site)
    await app.schedules.declare()
    for hour in range(36):
        site.execute("insert into events (created_at) values (?)", text(BEGIN + timedelta(hours=hour, minutes=30)))
    await pass_hours(app, clock, 36, "nightly")
    counts = [("2026-03-27", 12), ("2026-03-28", 24)]
    assert site.execute("select date, event_count from daily_metrics order by date") == counts
    done = await app.find(task=task.name, state="done")
    assert len(done.items) == 6

    await app.schedules.run("aggregate-events", at=BEGIN + timedelta(hours=36))
    await work(app, clock, "nightly")
    assert site.execute("select date, event_count from daily_metrics order by date") == counts


async def test_a_health_check_that_fails_leaves_its_next_tick_and_the_other_schedules_alone(
    app: App, clock: TurnedClock, site: Site
):
    alerts: list[Alert] = []

    async def page(alert: Alert) -> None:
        alerts.append(alert)

    check, counted = health_check(app, site), count(app, site)
    app.alerts(to=[page], rules=[Missed()])
    await app.schedules.declare()
    await app.alerts.declare()
    site.execute("alter table users rename to gone")
    for minute in range(10):
        if minute == 6:
            site.execute("alter table gone rename to users")
        clock.turn(60 * SECOND)
        await app.schedules.fire()
        await run_until_idle(app)
        await app.alerts.evaluate()
        await run_until_idle(app)

    [dead] = (await app.find(task=check.name, state="dead")).items
    assert (dead.headers["tick"][11:16], dead.failures[-1].type) == ("12:05", "sqlite3.OperationalError")
    assert [job.headers["tick"][11:16] for job in (await app.find(task=check.name, state="done")).items] == ["12:10"]
    assert len((await app.find(task=counted.name, state="done")).items) == 10
    assert [(alert.type, alert.phase, alert.schedule, alert.cron) for alert in alerts] == [
        ("cron_failure", "fired", "health-check", "*/5 * * * *"),
        ("cron_failure", "resolved", "health-check", "*/5 * * * *"),
    ]
    assert "no such table: users" in str(alerts[0].error)


async def test_active_sessions_are_counted_every_minute(app: App, clock: TurnedClock, site: Site):
    task = count(app, site)
    await app.schedules.declare()
    for minute in range(5):
        site.execute("insert into sessions values (?, ?)", f"{minute}", text(BEGIN + timedelta(hours=1)))
        clock.turn(60 * SECOND)
        await app.schedules.fire()
        await work(app, clock, "nightly")
    done = await app.find(task=task.name, state="done")

    counted = {job.headers["tick"][11:16]: job.stored.result for job in done.items}
    assert counted == {f"12:0{n}": f"{n}".encode() for n in range(1, 6)}


async def test_a_run_by_hand_cleans_up_for_the_time_it_is_reported(app: App, clock: TurnedClock, site: Site):
    cleanup(app, site)
    await app.schedules.declare()
    for days in (20, 8):
        site.execute("insert into sessions values (?, ?)", f"{days}", text(BEGIN - timedelta(days=days)))

    await app.schedules.run("nightly-cleanup", at=BEGIN - timedelta(days=10))
    await work(app, clock, "nightly")

    assert site.execute("select token from sessions") == [("8",)]


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
