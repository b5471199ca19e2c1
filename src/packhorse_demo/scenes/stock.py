"""Chords, chains and batches."""

from packhorse import Batch, chain, chord, group
from packhorse.model.event import Change
from packhorse_demo.scene import Check, Scene, Stage, equal, ids
from packhorse_demo.shop import app, takes

SHELVES = range(1, 9)
SALES = 40

sales = app.queue("sales")


@app.task(name="count-shelf", queue="stock")
async def count(shelf: int) -> int:
    """Count the items on one shelf."""
    await takes("40ms")
    return shelf * 10


@app.task(name="total", queue="stock")
async def total(counts: list[int]) -> int:
    """Add up the counts of all shelves."""
    return sum(counts)


@app.task(name="pay", queue="orders")
async def pay(number: int) -> str:
    """Take the money."""
    await takes("20ms")
    return f"order {number} paid"


@app.task(name="collect", queue="stock")
async def collect(paid: str) -> str:
    """Fetch the items from the shelves."""
    await takes("20ms")
    return f"{paid}, collected"


@app.task(name="hand-over", queue="stock")
async def hand_over(collected: str) -> str:
    """Give the items to the customer."""
    return f"{collected}, handed over"


@sales.batch(size=10, wait="200ms")
async def book(batch: Batch) -> None:
    """Record several sales at once and enqueue their number."""
    await takes("30ms")
    await booked.enqueue(len(batch))


@app.task(name="booked", queue="stock")
async def booked(sales: int) -> int:
    """Keep the number of sales of one batch."""
    return sales


class Chord(Scene):
    """Concurrent jobs, then one with all their results."""

    turn, name, shows = 50, "chord", "8 shelves are counted concurrently, then one job adds them up"

    def __init__(self) -> None:
        self._total = 0

    async def play(self, stage: Stage) -> None:
        """Store all jobs in one step."""
        plan = await chord(group(*(count.call(shelf) for shelf in SHELVES)), total).enqueue()
        self._total = await plan.result(timeout=20)
        stage.audience.message(f"{self._total} items on {len(SHELVES)} shelves")

    async def check(self, stage: Stage) -> list[Check]:
        """Check that the last job began when all others had ended."""
        jobs = await stage.jobs()
        counted = [stage.log.first(job.id, Change.DONE) for job in jobs if job.task == count.name]
        began = [stage.log.first(job.id, Change.CLAIMED) for job in jobs if job.task == total.name]
        ends, begins = [entry.position for entry in counted if entry], [entry.position for entry in began if entry]
        return [
            equal("the total is right", self._total, sum(shelf * 10 for shelf in SHELVES)),
            Check("added up last", max(ends) <= min(begins), f"counted at {ends}, added up at {begins}"),
            stage.once("jobs", jobs, len(SHELVES) + 1),
        ]


class Chain(Scene):
    """One job after the other."""

    turn, name, shows = 52, "chain", "pay, collect, hand over: each job gets the result of the one before"

    def __init__(self) -> None:
        self._result = ""

    async def play(self, stage: Stage) -> None:
        """Run three jobs for one result."""
        self._result = await (await chain(pay.call(7), collect, hand_over).enqueue()).result(timeout=20)
        stage.audience.message(self._result)

    async def check(self, stage: Stage) -> list[Check]:
        """Check that each job ran once."""
        return [
            equal("the result passed through all", self._result, "order 7 paid, collected, handed over"),
            stage.once("jobs", await stage.jobs(), 3),
        ]


class BatchScene(Scene):
    """Several messages in one job."""

    turn, name, shows = 55, "batches", "40 sales are recorded about 10 at a time"

    async def play(self, stage: Stage) -> None:
        """Enqueue sales one by one; a batch task handles them together."""
        calls = [sales.call("sale", {"number": number}) for number in range(SALES)]
        await stage.log.ended(ids(await app.enqueue(*calls)))

    async def check(self, stage: Stage) -> list[Check]:
        """Check that every sale was recorded once, in fewer batches than there are sales."""
        jobs = await stage.quiet()
        batches = [job.data["sales"] for job in jobs if job.task == booked.name]
        return [
            stage.once("sales", [job for job in jobs if job.task == "sale"], SALES),
            Check("several at a time", len(batches) <= SALES // 2, f"in batches of {batches}"),
        ]
