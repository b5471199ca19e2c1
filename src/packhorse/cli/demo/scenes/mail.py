"""A mail server that is often away."""

from itertools import pairwise

from packhorse import current, exponential
from packhorse.cli.demo.logbook import Entry
from packhorse.cli.demo.scene import Check, Scene, Stage, ids
from packhorse.cli.demo.shop import app, takes
from packhorse.model.event import Change

FAILURES = (0, 1, 2, 0, 1, 2, 0, 1)
FIRST = 200_000
SLACK = 20_000  # the delay begins when the worker settles, a moment before the store writes it down


@app.task(name="newsletter", queue="mail", attempts=5, backoff=exponential("200ms", jitter=0))
async def send(number: int, failures: int) -> str:
    """Send a letter; the server is away the first few times."""
    await takes("5ms")
    if current().attempt <= failures:
        raise ConnectionError("the mail server is away")
    return f"letter {number} sent at try {current().attempt}"


class Mail(Scene):
    """Retries with growing pauses."""

    turn, name, shows = 20, "retries", "a flaky mail server: tried again after 0.2 s, 0.4 s, …"

    async def play(self, stage: Stage) -> None:
        """Some letters go out at once, some at the third try."""
        letters = [await send.enqueue(number, failures) for number, failures in enumerate(FAILURES)]
        await stage.log.ended(ids(letters))

    async def check(self, stage: Stage) -> list[Check]:
        """Each was tried as often as it took, after the pause it was due."""
        letters = await stage.jobs()
        retries = stage.log.times([job.id for job in letters], Change.AGAIN)
        short = [pause for job in letters for pause in _too_short(stage.log.of(job.id))]
        return [
            stage.once("letters", letters, len(FAILURES)),
            Check(f"{sum(FAILURES)} retries", retries >= sum(FAILURES), f"found {retries}"),
            Check("each after its pause", not short, f"too short: {short}"),
        ]


def _too_short(life: list[Entry]) -> list[int]:
    """The pauses between a failure and the next try that were shorter than they must be, in microseconds."""
    steps = [entry for entry in life if entry.change in (Change.AGAIN, Change.CLAIMED)]
    pauses = [after.at - before.at for before, after in pairwise(steps) if after.change is Change.CLAIMED]
    return [pause for number, pause in enumerate(pauses) if pause < FIRST * 2**number - SLACK]
