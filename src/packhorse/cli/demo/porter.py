"""A worker process of the demo. It works until its standard input ends, so it never outlives the demo."""

import asyncio
import os
import sys

from packhorse.cli.demo import scenes
from packhorse.cli.demo.fleet import READY
from packhorse.cli.demo.place import LEASE
from packhorse.cli.demo.scenes import packing
from packhorse.cli.demo.shop import app

SLOTS = {"packing": packing.SLOTS, "parcels": 4}


async def work() -> None:
    """Serve all queues of the shop."""
    scenes.found()  # registers their tasks
    async with app, app.worker(concurrency=16, slots=SLOTS, lease=LEASE, grace="3s", name=f"porter-{os.getpid()}"):
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(work())
