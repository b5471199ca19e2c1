"""Lanes and unique jobs."""

from packhorse import JobHandle, Unique
from packhorse.model.event import Change
from packhorse_demo.event_log import EventLog
from packhorse_demo.scene import Check, Scene, Stage, equal, ids
from packhorse_demo.shop import app, takes

CUSTOMERS = ("ada", "ben", "cleo", "dan")
STEPS = 5
CLICKS = 5


@app.task(name="account", queue="accounts")
async def account(customer: str, step: int) -> str:
    """Change the account of a customer; the order of changes matters."""
    await takes("10ms")
    return f"{customer} {step}"


@app.task(name="buy", queue="accounts")
async def buy(basket: str) -> str:
    """Buy what is in the basket."""
    await takes("20ms")
    return f"{basket} bought"


class Lanes(Scene):
    """One job at a time for each key."""

    turn, name, shows = 70, "lanes", "changes of 4 accounts: in order for each customer, customers concurrently"

    def __init__(self) -> None:
        self._lanes: dict[str, list[JobHandle[str]]] = {customer: [] for customer in CUSTOMERS}

    async def play(self, stage: Stage) -> None:
        """Enqueue all changes; two workers run them."""
        for step in range(STEPS):
            for customer, lane in self._lanes.items():
                lane.append(await account.using(key=customer).enqueue(customer, step))
        await stage.log.ended(job for lane in self._lanes.values() for job in ids(lane))

    async def check(self, stage: Stage) -> list[Check]:
        """Check that no job began before the one ahead in its lane had ended."""
        early = [customer for customer, lane in self._lanes.items() if not _in_order(stage.log, ids(lane))]
        return [
            equal("no customer out of order", early, []),
            stage.once("changes", await stage.jobs(), STEPS * len(CUSTOMERS)),
        ]


class Clicks(Scene):
    """One unique job, enqueued several times."""

    turn, name, shows = 72, "unique", "a customer clicks 5 times and buys once"

    def __init__(self) -> None:
        self._created: list[bool] = []

    async def play(self, stage: Stage) -> None:
        """Every click gets a handle of the same job."""
        once = Unique(f"basket-of-ada/{stage.name}", within="1m")
        clicks = [await buy.using(unique=once).enqueue("a basket") for _ in range(CLICKS)]
        self._created = [click.created for click in clicks]
        for click in clicks:
            await click.result(timeout=20)

    async def check(self, stage: Stage) -> list[Check]:
        """Check that there is one job."""
        return [
            equal("the first click counts", self._created, [True] + [False] * (CLICKS - 1)),
            stage.once("purchase", await stage.jobs(), 1),
        ]


def _in_order(log: EventLog, jobs: list[str]) -> bool:
    ends = [max(entry.position for entry in log.of(job) if entry.change is Change.DONE) for job in jobs]
    begins = [min(entry.position for entry in log.of(job) if entry.change is Change.CLAIMED) for job in jobs]
    return all(end < begin for end, begin in zip(ends[:-1], begins[1:], strict=True))
