"""The shop as it runs: ``uvicorn examples.orders.shop:web`` is the API, ``python -m examples.orders.shop`` a worker."""

import asyncio
from pathlib import Path

from examples.orders.api import api
from examples.orders.mail import Mailbox
from examples.orders.support import Tickets, support
from examples.orders.tasks import confirmation
from packhorse import App, log_alerts

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
confirm = confirmation(app, Mailbox(Path("mail.db")).send)
support(app, Tickets(Path("tickets.db")), log_alerts)
web = api(app, confirm)

if __name__ == "__main__":
    asyncio.run(app.worker("email").run())
