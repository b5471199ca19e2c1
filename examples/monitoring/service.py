"""The app as it runs: ``packhorse worker examples.monitoring.service:app``; run as a module, it counts events."""

import asyncio
import os
from pathlib import Path

from examples.monitoring.alerts import watch
from examples.monitoring.counters import JobCounters, count_events
from examples.monitoring.receiver import PORT
from packhorse import App, Webhook

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
# A receiver elsewhere needs its https address only; this one is on this machine, which is refused unless it is listed.
receiver = Webhook(
    f"http://localhost:{PORT}/alerts",
    secret=os.environ.get("ALERT_SECRET"),
    http=True,
    ports=[PORT],
    allow=["127.0.0.0/8", "::1/128"],
)
watch(app, receiver, ["email"])


@app.task(name="send-email", queue="email", attempts=1)
async def send_email(address: str) -> None:
    """Send an e-mail; fails for an address without an ``@``."""
    if "@" not in address:
        raise ValueError(f"{address} is no address")


async def main() -> None:
    """Count events until Ctrl-C, and print the counts every five seconds."""
    counters = JobCounters(Path("counters.json"))
    counting = asyncio.create_task(count_events(app, counters))
    while not counting.done():
        await asyncio.wait([counting], timeout=5)
        print(dict(counters.counts), flush=True)
    await counting


if __name__ == "__main__":
    asyncio.run(main())
