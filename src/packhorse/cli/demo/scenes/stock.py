"""Counting the stock: side by side, one after the other, several at a time."""

from packhorse import Batch, chain, chord, group
from packhorse.cli.demo.scene import Check, Scene, Stage, equal, ids
from packhorse.cli.demo.shop import app, takes
from packhorse.model.event import Change

SHELVES = range(1, 9)
SALES = 40

sales = app.queue("sales")


@app.task(name="count-shelf", queue="stock")
async def count(shelf: int) -> int:
    """Count the things on one shelf."""
    await takes("40ms")
    return shelf * 10


@app.task(name="total", queue="stock")
async def total(counts: list[int]) -> int:
    """Add up what all shelves hold."""
    return sum(counts)


@app.task(name="pay", queue="orders")
async def pay(number: int) -> str:
    """Take the money."""
    await takes("20ms")
    return f"order {number} paid"


@app.task(name="collect", queue="stock")
async def collect(paid: str) -> str:
    """Fetch the things from the shelves."""
    await takes("20ms")
    return f"{paid}, collected"


@app.task(name="hand-over", queue="stock")
async def hand_over(collected: str) -> str:
    """Give them to the customer."""
    return f"{collected}, handed over"


@sales.batch(size=10, wait="200ms")
async def book(batch: Batch) -> None:
    """Write several sales in one go, and note how many."""
    await takes("30ms")
    await booked.enqueue(len(batch))


@app.task(name="booked", queue="stock")
async def booked(sales: int) -> int:
    """Keep the number of sales of one go."""
    return sales


class Chord(Scene):
    """Side by side, then together."""

    turn, name, shows = 50, "chord", "8 shelves are counted side by side, then one job adds them up"

    def __init__(self) -> None:
        self._total = 0

    async def play(self, stage: Stage) -> None:
        """All of it is stored in one step."""
        flow = await chord(group(*(count.call(shelf) for shelf in SHELVES)), total).enqueue()
        self._total = await flow.result(timeout=20)
        stage.audience.tell(f"{self._total} things on {len(SHELVES)} shelves")

    async def check(self, stage: Stage) -> list[Check]:
        """The last job began when all before it had ended."""
        jobs = await stage.jobs()
        counted = [stage.log.first(job.id, Change.DONE) for job in jobs if job.task == count.name]
        began = [stage.log.first(job.id, Change.CLAIMED) for job in jobs if job.task == total.name]
        ends, begins = [entry.place for entry in counted if entry], [entry.place for entry in began if entry]
        return [
            equal("the total is right", self._total, sum(shelf * 10 for shelf in SHELVES)),
            Check("added up last", max(ends) <= min(begins), f"counted at {ends}, added up at {begins}"),
            stage.once("jobs", jobs, len(SHELVES) + 1),
        ]


class Chain(Scene):
    """One after the other."""

    turn, name, shows = 52, "chain", "pay, collect, hand over: each gets the result of the one before"

    def __init__(self) -> None:
        self._said = ""

    async def play(self, stage: Stage) -> None:
        """Three jobs, one result."""
        self._said = await (await chain(pay.call(7), collect, hand_over).enqueue()).result(timeout=20)
        stage.audience.tell(self._said)

    async def check(self, stage: Stage) -> list[Check]:
        """Each link ran once."""
        return [
            equal("the result went through all", self._said, "order 7 paid, collected, handed over"),
            stage.once("jobs", await stage.jobs(), 3),
        ]


class Batches(Scene):
    """Several at a time."""

    turn, name, shows = 55, "batches", "40 sales are booked about 10 at a time"

    async def play(self, stage: Stage) -> None:
        """Enqueued one by one, handled together."""
        calls = [sales.call("sale", {"number": number}) for number in range(SALES)]
        await stage.log.ended(ids(await app.enqueue(*calls)))

    async def check(self, stage: Stage) -> list[Check]:
        """Every sale was booked once, in fewer goes than there are sales."""
        jobs = await stage.quiet()
        goes = [job.data["sales"] for job in jobs if job.task == booked.name]
        return [
            stage.once("sales", [job for job in jobs if job.task == "sale"], SALES),
            Check("several at a time", len(goes) <= SALES // 2, f"in goes of {goes}"),
        ]
