"""What an order starts and its customer does not wait for."""

from collections.abc import Callable
from dataclasses import dataclass

from packhorse import App, Keep, Task, current, exponential

Send = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Receipt:
    """What is known of a confirmation that was sent."""

    order_id: str
    email: str
    attempt: int


def confirmation(app: App, send: Send) -> Task[[str, str], Receipt]:
    """The task that confirms an order: one try and three more, 1, 2 and 4 seconds apart, then a dead letter."""

    @app.task(
        name="email:order-confirmation",
        queue="email",
        attempts=4,
        backoff=exponential(1, jitter=0),
        keep_done=Keep(count=100),
        keep_dead=Keep(count=500),
    )
    def order_confirmation(order_id: str, email: str) -> Receipt:
        ctx = current()
        # A worker may be lost after the e-mail went out and before that is written down: then the job runs again. Its
        # key is the same at every try, so the second e-mail is not sent. A mark set before sending would lose e-mails.
        send(ctx.idempotency_key, email, f"We have your order {order_id}.")
        return Receipt(order_id, email, ctx.attempt)

    return order_confirmation
