"""Orders run concurrently; each enqueues its confirmation in the same step as its completion."""

from packhorse import Job, current
from packhorse.model.event import Change
from packhorse_demo.scene import Check, Scene, Stage, equal, ids
from packhorse_demo.shop import app, takes

COUNT = 120


@app.task(name="order", queue="orders")
async def order(number: int) -> str:
    """Take an order; its confirmation is enqueued with its completion, or not at all."""
    await takes("5ms")
    current().enqueue(confirm.call(number))
    return f"order {number} taken"


@app.task(name="order-confirmation", queue="mail")
async def confirm(number: int) -> str:
    """Write to the customer."""
    await takes("2ms")
    return f"order {number} confirmed"


def confirmed(stage: Stage, jobs: list[Job], wanted: int) -> list[Check]:
    """Check that every order was handled once and confirmed once."""
    mails = [job for job in jobs if job.task == confirm.name]
    orders = [job for job in jobs if job.task == order.name]
    return [
        stage.once("orders", orders, wanted),
        stage.once("confirmations", mails, wanted),
        equal(
            "every order is confirmed",
            sorted(job.data["number"] for job in mails),
            sorted(job.data["number"] for job in orders),
        ),
    ]


class Orders(Scene):
    """Many jobs at once."""

    turn, name, shows = 10, "orders", "120 orders in one step; each enqueues its confirmation with its completion"

    async def play(self, stage: Stage) -> None:
        """Enqueue all orders in one step."""
        orders = await app.enqueue(*(order.call(number) for number in range(COUNT)))
        await stage.log.happened(ids(orders), Change.DONE)

    async def check(self, stage: Stage) -> list[Check]:
        """Check that no order is lost or handled twice."""
        return confirmed(stage, await stage.quiet(), COUNT)
