"""Priorities and delays."""

from packhorse import JobHandle
from packhorse.model.event import Change
from packhorse_demo.event_log import EventLog
from packhorse_demo.scene import Check, Scene, Stage, equal, ids
from packhorse_demo.shop import app, takes

BULK, URGENT, LATE = 20, 3, 4
SLOTS = 2  # of a worker for this queue
DELAY = "800ms"


@app.task(name="pack", queue="packing", priority=100)
async def pack(what: str) -> str:
    """Pack one item."""
    await takes("25ms")
    return f"{what} packed"


@app.task(name="reminder", queue="mail")
async def remind(number: int) -> str:
    """Remind a customer of a full basket."""
    await takes("2ms")
    return f"customer {number} reminded"


class Priorities(Scene):
    """Urgent jobs overtake others."""

    turn, name, shows = (
        40,
        "priorities",
        "20 orders wait in a paused queue; 3 urgent ones are enqueued last and run first",
    )

    def __init__(self) -> None:
        self._bulk: list[JobHandle[str]] = []
        self._urgent: list[JobHandle[str]] = []

    async def play(self, stage: Stage) -> None:
        """Pause the queue while jobs are enqueued, so that all wait in it."""
        queue = app.queue("packing")
        await queue.pause()
        self._bulk = [await pack.enqueue(f"order {number}") for number in range(BULK)]
        self._urgent = [await pack.using(priority=1).enqueue(f"urgent order {number}") for number in range(URGENT)]
        await queue.resume()
        await stage.log.ended(ids([*self._bulk, *self._urgent]))

    async def check(self, stage: Stage) -> list[Check]:
        """Check that urgent jobs were leased before the others, except those leased at the same moment."""
        urgent, bulk = _turns(stage.log, self._urgent), _turns(stage.log, self._bulk)
        ahead = [turn for turn in bulk if turn < max(urgent)]
        found = f"urgent ones in exchanges {urgent}, others in {bulk}"
        return [
            Check(f"urgent orders overtook {BULK - SLOTS} others", len(ahead) <= SLOTS, found),
            stage.once("orders", await stage.jobs(), BULK + URGENT),
        ]


class Delays(Scene):
    """Delayed jobs."""

    turn, name, shows = 45, "delays", "reminders due in 0.8 s; one due in an hour is promoted"

    def __init__(self) -> None:
        self._states: list[str] = []

    async def play(self, stage: Stage) -> None:
        """Enqueue delayed jobs and promote one that is due much later."""
        jobs = [await remind.using(delay=DELAY).enqueue(number) for number in range(LATE)]
        later = await remind.using(delay="1h").enqueue(LATE)
        self._states = [await job.state() for job in (*jobs, later)]
        await later.promote()
        await stage.log.ended(ids([*jobs, later]))

    async def check(self, stage: Stage) -> list[Check]:
        """Check that none ran too early."""
        jobs = await stage.jobs()
        waits = [stage.log.of(job.id) for job in jobs if job.data["number"] < LATE]
        early = [life for life in waits if life[-1].at - life[0].at < 800_000]
        return [
            equal("scheduled at first", self._states, ["scheduled"] * (LATE + 1)),
            equal("none too early", early, []),
            stage.once("reminders", jobs, LATE + 1),
        ]


def _turns(log: EventLog, handles: list[JobHandle[str]]) -> list[int]:
    """Return the number of the exchange in which each job was leased."""
    claims = [log.first(handle.id, Change.CLAIMED) for handle in handles]
    return [claim.position[0] for claim in claims if claim is not None]
