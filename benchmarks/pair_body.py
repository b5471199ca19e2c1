"""One half of a pair: enqueue jobs in bulk, run them, and print the processor seconds of this process and the server."""

import asyncio
import json
import sys

from benchmarks.sides import meter
from packhorse import App

BATCH = 500


async def measure(url: str, server: int | None, jobs: int) -> float:
    """Processor seconds a job, of the stretch from the first enqueue until the worker is idle."""
    app = App(url)

    @app.task(name="noop")
    async def noop(number: int) -> None: ...

    async with app:
        begun = meter.read(server)
        for first in range(0, jobs, BATCH):
            await app.enqueue(*[noop.call(number) for number in range(first, min(first + BATCH, jobs))])
        async with app.worker("default", concurrency=100) as worker:
            await worker.idle()
        counts = await app.queue("default").counts()
        assert counts["done"] == sum(counts.values())
        spent = meter.between(begun, meter.read(server), jobs)["cpu"]
    assert spent is not None
    return spent


if __name__ == "__main__":
    place, pid, many = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(place, int(pid) or None, int(many)))))
