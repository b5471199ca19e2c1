"""What comes first, and what comes later."""

from packhorse import JobHandle
from packhorse.cli.demo.logbook import Logbook
from packhorse.cli.demo.scene import Check, Scene, Stage, equal, ids
from packhorse.cli.demo.shop import app, takes
from packhorse.model.event import Change

BULK, URGENT, LATE = 20, 3, 4
SLOTS = 2  # of a worker for parcels
DELAY = "800ms"


@app.task(name="pack", queue="packing", priority=100)
async def pack(what: str) -> str:
    """Pack one thing."""
    await takes("25ms")
    return f"{what} packed"


@app.task(name="reminder", queue="mail")
async def remind(number: int) -> str:
    """Write to somebody who has left a full basket."""
    await takes("2ms")
    return f"customer {number} reminded"


class Priorities(Scene):
    """Urgent jobs overtake."""

    turn, name, shows = 40, "priorities", "20 parcels wait in a paused queue; 3 urgent ones come last and leave first"

    def __init__(self) -> None:
        self._bulk: list[JobHandle[str]] = []
        self._urgent: list[JobHandle[str]] = []

    async def play(self, stage: Stage) -> None:
        """The line is paused while it grows, so that all stand in it at once."""
        line = app.queue("packing")
        await line.pause()
        self._bulk = [await pack.enqueue(f"parcel {number}") for number in range(BULK)]
        self._urgent = [await pack.using(priority=1).enqueue(f"urgent parcel {number}") for number in range(URGENT)]
        await line.resume()
        await stage.log.ended(ids([*self._bulk, *self._urgent]))

    async def check(self, stage: Stage) -> list[Check]:
        """Those that came earlier were leased later, but for what another worker took in the same moment."""
        urgent, bulk = _turns(stage.log, self._urgent), _turns(stage.log, self._bulk)
        ahead = [turn for turn in bulk if turn < max(urgent)]
        found = f"urgent ones in exchanges {urgent}, others in {bulk}"
        return [
            Check(f"urgent parcels overtook {BULK - SLOTS} others", len(ahead) <= SLOTS, found),
            stage.once("parcels", await stage.jobs(), BULK + URGENT),
        ]


class Delays(Scene):
    """Jobs for later."""

    turn, name, shows = 45, "delays", "reminders due in 0.8 s; one due in an hour is promoted"

    def __init__(self) -> None:
        self._states: list[str] = []

    async def play(self, stage: Stage) -> None:
        """They are scheduled, and run when their moment has come."""
        jobs = [await remind.using(delay=DELAY).enqueue(number) for number in range(LATE)]
        later = await remind.using(delay="1h").enqueue(LATE)
        self._states = [await job.status() for job in (*jobs, later)]
        await later.promote()
        await stage.log.ended(ids([*jobs, later]))

    async def check(self, stage: Stage) -> list[Check]:
        """None of them ran before."""
        jobs = await stage.jobs()
        waits = [stage.log.of(job.id) for job in jobs if job.data["number"] < LATE]
        early = [life for life in waits if life[-1].at - life[0].at < 800_000]
        return [
            equal("scheduled at first", self._states, ["scheduled"] * (LATE + 1)),
            equal("none too early", early, []),
            stage.once("reminders", jobs, LATE + 1),
        ]


def _turns(log: Logbook, handles: list[JobHandle[str]]) -> list[int]:
    """In which exchange each was leased."""
    claims = [log.first(handle.id, Change.CLAIMED) for handle in handles]
    return [claim.place[0] for claim in claims if claim is not None]
