"""What the site does by the clock."""

from datetime import timedelta

from examples.nightly.site import Site
from packhorse import App, Task, Tick, cron, every

A_DAY = timedelta(days=1)


def cleanup(app: App, site: Site) -> Task[[Tick], dict[str, int]]:
    """The task that cleans up, every night at two by the clocks of Paris."""

    @app.schedule(cron("0 2 * * *", tz="Europe/Paris"), name="nightly-cleanup", catch_up="latest", expect_within="1h")
    @app.task(name="nightly-cleanup", queue="nightly", attempts=5)
    def nightly_cleanup(tick: Tick) -> dict[str, int]:
        # By the time it was meant for, not by the clock: a run that comes late removes no more and no less.
        return site.clean_up(tick.at)

    return nightly_cleanup


def aggregation(app: App, site: Site) -> Task[[Tick], int]:
    """The task that counts the events of each day, every six hours."""

    @app.schedule(cron("0 */6 * * *"), name="aggregate-events")
    @app.task(name="aggregate-events", queue="nightly")
    def aggregate_events(tick: Tick) -> int:
        # The days since the last run, whole: a second run of the same tick writes the same counts.
        return site.sum_up((tick.previous or tick.at) - A_DAY, tick.at)

    return aggregate_events


def health_check(app: App, site: Site) -> Task[[], None]:
    """The task that reads from the database every five minutes, and fails if it cannot."""

    @app.schedule(cron("*/5 * * * *"), name="health-check", catch_up="skip")
    @app.task(name="health-check", queue="nightly", attempts=1)
    def check_health() -> None:
        site.check()

    return check_health


def count(app: App, site: Site) -> Task[[Tick], int]:
    """The task that counts the active sessions, every minute."""

    @app.schedule(every("60s"), name="count-sessions", catch_up="skip")
    @app.task(name="count-sessions", queue="nightly")
    def count_sessions(tick: Tick) -> int:
        return site.active_sessions(tick.at)

    return count_sessions
