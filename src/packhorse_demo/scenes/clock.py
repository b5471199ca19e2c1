"""A clock that strikes every second, on whichever worker."""

from datetime import datetime, timedelta
from itertools import pairwise

from packhorse import every
from packhorse.model.clock import SYSTEM
from packhorse_demo.scene import Check, Scene, Stage, equal
from packhorse_demo.shop import app

STRIKES = 3
POLL_EVERY_US = 100_000


@app.task(name="strike", queue="clock")
async def strike() -> None:
    """Strike once."""


class ClockScene(Scene):
    """A schedule that all workers fire; each tick is one job."""

    turn, name, shows = 47, "schedules", "a clock strikes every second: all workers fire it, each second is one job"

    async def play(self, stage: Stage) -> None:
        """Wait for a few ticks, then remove the schedule."""
        await app.schedules.put(
            stage.name, every("1s"), strike.using(correlation_id=stage.name).call(), overlap="allow"
        )
        try:
            while len(await stage.jobs()) < STRIKES:
                await SYSTEM.sleep(POLL_EVERY_US)
        finally:
            await app.schedules.remove(stage.name)
        await stage.quiet()

    async def check(self, stage: Stage) -> list[Check]:
        """Check that each second has one job and none is missing."""
        strikes = await stage.jobs()
        times = sorted(datetime.fromisoformat(str(job.headers["tick"])) for job in strikes)
        pauses = {after - before for before, after in pairwise(times)}
        return [
            equal("no second is missing", pauses, {timedelta(seconds=1)}),
            stage.once("strikes", strikes, max(STRIKES, len(strikes))),
        ]
