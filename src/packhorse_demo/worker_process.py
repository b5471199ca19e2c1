"""A worker process of the demo. It runs until its standard input ends, so it cannot outlive the demo."""

import asyncio
import os
import sys

from packhorse_demo import scenes
from packhorse_demo.demo_store import LEASE
from packhorse_demo.scenes import packing
from packhorse_demo.shop import app
from packhorse_demo.workers import READY

QUEUE_CONCURRENCY = {"packing": packing.SLOTS, "shipments": 4}


async def run() -> None:
    """Run the jobs of all queues of the shop."""
    scenes.found()  # registers their tasks
    async with (
        app,
        app.worker(
            concurrency=16, queue_concurrency=QUEUE_CONCURRENCY, lease=LEASE, grace="3s", name=f"worker-{os.getpid()}"
        ),
    ):
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(run())
