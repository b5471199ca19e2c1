"""A process that follows the events of jobs and records each in the ledger, with one write, as it gets it.

It reconnects after so many events, each time from the position of the last one. Run as a program: where to begin, and after
how many events to reconnect.
"""

import asyncio
import sys

from packhorse import Gap
from tests.features.programs import app, note


async def follow(position: str, count: int) -> str:
    """Record so many events from a position on, with connections of their own."""
    async with app, app.events(after=position) as events:
        for _ in range(count):
            event = await anext(events)
            position = event.position or ""
            if isinstance(event, Gap):
                note("gap", position, event.missed)
            else:
                note("event", position, event.name, event.job_id, event.correlation_id)
    return position


async def main(position: str, count: int) -> None:
    while True:
        note("connects", position)
        position = await follow(position, count)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
