"""A clock that strikes every second, whichever worker is there to hear it."""

from datetime import datetime, timedelta
from itertools import pairwise

from packhorse import every
from packhorse.cli.demo.scene import Check, Scene, Stage, equal
from packhorse.cli.demo.shop import app
from packhorse.model.clock import SYSTEM

STRIKES = 3
LOOK = 100_000


@app.task(name="strike", queue="clock")
async def strike() -> None:
    """Strike once."""


class Clock(Scene):
    """A schedule that all workers fire, and each of its moments is one job."""

    turn, name, shows = 47, "schedules", "a clock strikes every second: all workers fire it, each second is one job"

    async def play(self, stage: Stage) -> None:
        """Let it strike a few times, then forget it."""
        await app.schedules.put(stage.name, every("1s"), strike.using(correlation=stage.name).call(), overlap="allow")
        try:
            while len(await stage.jobs()) < STRIKES:
                await SYSTEM.sleep(LOOK)
        finally:
            await app.schedules.remove(stage.name)
        await stage.quiet()

    async def check(self, stage: Stage) -> list[Check]:
        """One job for each second, and no second left out."""
        strikes = await stage.jobs()
        times = sorted(datetime.fromisoformat(str(job.headers["tick"])) for job in strikes)
        pauses = {after - before for before, after in pairwise(times)}
        return [
            equal("no second left out", pauses, {timedelta(seconds=1)}),
            stage.once("strikes", strikes, max(STRIKES, len(strikes))),
        ]
