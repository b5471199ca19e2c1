"""The clean-up at night; ``packhorse worker examples.nightly.tasks:app`` runs it."""

from datetime import datetime, timedelta

from packhorse import App, Task, Tick, cron, every

KEPT = timedelta(days=7)


class Baskets:
    """Baskets that customers left behind; stands in for your database."""

    def __init__(self) -> None:
        self.left: dict[str, datetime] = {}

    def remove_before(self, moment: datetime) -> list[str]:
        """Remove those that were left before a moment."""
        old = [name for name, left in self.left.items() if left < moment]
        for name in old:
            del self.left[name]
        return old


def cleanup(app: App, baskets: Baskets) -> Task[[Tick], list[str]]:
    """The task that removes old baskets, every night at two by the clocks of Paris."""

    @app.schedule(cron("0 2 * * *", tz="Europe/Paris"), name="nightly-cleanup", catch_up="latest", expect_within="1h")
    @app.task(name="nightly-cleanup", queue="nightly", attempts=5)
    async def nightly_cleanup(tick: Tick) -> list[str]:
        # By the time it was meant for, not by the clock: a run that comes late removes no more and no less.
        return baskets.remove_before(tick.at - KEPT)

    return nightly_cleanup


def count(app: App, baskets: Baskets) -> Task[[], int]:
    """The task that counts the baskets, every minute."""

    @app.schedule(every("60s"), name="count-baskets", catch_up="skip")
    @app.task(name="count-baskets", queue="nightly")
    async def count_baskets() -> int:
        return len(baskets.left)

    return count_baskets


app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
baskets = Baskets()
cleanup(app, baskets)
count(app, baskets)
