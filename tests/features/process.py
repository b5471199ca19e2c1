"""A worker process of a test: works on the tasks of ``tests.features.programs`` and ``more_programs`` until it is asked to stop."""

import asyncio
import json
import sys

from tests.features.more_programs import app


async def main() -> None:
    async with app:
        worker = app.worker(**json.loads(sys.argv[1]))
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        sys.stdout.write("works\n")
        sys.stdout.flush()
        await running


if __name__ == "__main__":
    asyncio.run(main())
