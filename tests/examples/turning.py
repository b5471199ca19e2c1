"""Running an app's jobs at moments the test chooses."""

from packhorse import App
from packhorse.engine.worker import Settings
from packhorse.testing import TurnedClock, run_until_idle

SECOND = 1_000_000


async def work(app: App, clock: TurnedClock, queue: str) -> None:
    """Run what is ready in a queue at this moment, retries only if they are due."""
    await run_until_idle(await app.store(), app.registry, Settings(queues={queue: 1}), clock=clock)
