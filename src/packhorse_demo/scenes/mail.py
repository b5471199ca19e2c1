"""A mail server that is often unavailable."""

from itertools import pairwise

from packhorse import current, exponential
from packhorse.model.event import Change
from packhorse_demo.event_log import LogEntry
from packhorse_demo.scene import Check, Scene, Stage, ids
from packhorse_demo.shop import app, takes

FAILURES = (0, 1, 2, 0, 1, 2, 0, 1)
FIRST_DELAY_US = 200_000
TOLERANCE_US = 20_000  # the delay begins when the worker settles, just before the store writes the event


@app.task(name="newsletter", queue="mail", attempts=5, backoff=exponential("200ms", jitter=0))
async def send(number: int, failures: int) -> str:
    """Send a letter; the server is unavailable the first few times."""
    await takes("5ms")
    if current().attempt <= failures:
        raise ConnectionError("the mail server is unavailable")
    return f"letter {number} sent at attempt {current().attempt}"


class Mail(Scene):
    """Retries with growing delays."""

    turn, name, shows = 20, "retries", "an unreliable mail server: retries after 0.2 s, 0.4 s, …"

    async def play(self, stage: Stage) -> None:
        """Some letters are sent at the first attempt, some at the third."""
        letters = [await send.enqueue(number, failures) for number, failures in enumerate(FAILURES)]
        await stage.log.ended(ids(letters))

    async def check(self, stage: Stage) -> list[Check]:
        """Check the number of retries and the delay before each."""
        letters = await stage.jobs()
        retries = stage.log.times([job.id for job in letters], Change.AGAIN)
        short = [pause for job in letters for pause in _too_short(stage.log.of(job.id))]
        return [
            stage.once("letters", letters, len(FAILURES)),
            Check(f"{sum(FAILURES)} retries", retries >= sum(FAILURES), f"found {retries}"),
            Check("each after its delay", not short, f"too short: {short}"),
        ]


def _too_short(life: list[LogEntry]) -> list[int]:
    """Return the delays between a failure and the next attempt that were too short, in microseconds."""
    steps = [entry for entry in life if entry.change in (Change.AGAIN, Change.CLAIMED)]
    pauses = [after.at - before.at for before, after in pairwise(steps) if after.change is Change.CLAIMED]
    return [pause for number, pause in enumerate(pauses) if pause < FIRST_DELAY_US * 2**number - TOLERANCE_US]
