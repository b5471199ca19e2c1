"""A bug makes jobs die; the next release fixes it, and the dead jobs are replayed."""

from packhorse import JobHandle, constant
from packhorse.model.event import Change
from packhorse_demo.scene import Check, Scene, Stage, equal, ids
from packhorse_demo.shop import app, takes

COUNT = 3


@app.task(name="invoice", queue="invoices", attempts=2, backoff=constant("100ms"))
async def invoice(number: int, fixed_in: int) -> str:
    """Write an invoice, unless this release has a bug."""
    await takes("5ms")
    if int(app.release or 0) < fixed_in:
        raise ZeroDivisionError(f"a bug of release {app.release}")
    return f"invoice {number} written by release {app.release}"


class Invoices(Scene):
    """Dead letters and replay."""

    turn, name, shows = 30, "dead letters", "a bug kills 3 jobs; the next release is deployed, they are replayed"

    def __init__(self) -> None:
        self._dead: list[str | None] = []

    async def play(self, stage: Stage) -> None:
        """Let the jobs die, deploy the next release and replay them."""
        fixed_in = stage.workers.release + 1
        invoices: list[JobHandle[str]] = [await invoice.enqueue(number, fixed_in) for number in range(COUNT)]
        await stage.log.happened(ids(invoices), Change.DEAD)
        self._dead = [(await job.info()).reason for job in invoices]
        stage.audience.message(f"{COUNT} invoices are dead: {(await invoices[0].info()).failures[-1].message}")
        await stage.workers.deploy()
        stage.audience.message(f"release {stage.workers.release} is deployed; the dead jobs are replayed")
        for job in invoices:
            await job.replay()
        for job in invoices:
            await job.result(timeout=20)

    async def check(self, stage: Stage) -> list[Check]:
        """Check that each job died once, was replayed once and is done once."""
        invoices = await stage.quiet()
        jobs = [job.id for job in invoices]
        lives = (Change.DEAD, Change.REPLAYED)
        return [
            equal("dead as exhausted after 2 attempts", self._dead, ["exhausted"] * COUNT),
            equal("each died once and was replayed once", [stage.log.times(jobs, each) for each in lives], [COUNT] * 2),
            stage.once("invoices", invoices, COUNT),
        ]
