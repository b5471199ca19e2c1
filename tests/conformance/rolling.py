"""A program of one release: a worker and a producer, until it is asked to stop, or to work off all that is there.

``python rolling.py URL NAMESPACE LEDGER``: the id of every job whose enqueue was acknowledged goes to the ledger. It is run
with the package of that release, so it knows nothing of the tests.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from packhorse import App, current

RAN = "ran"
BATCH = 5
PAUSE = 0.005


async def main(url: str, namespace: str, ledger: Path) -> None:
    app = App(url, namespace=namespace, migrate=False)

    @app.task(name="work")
    async def work(number: int) -> None:
        current().publish(RAN, current().job_id.encode())

    order = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, order.set)
    store = await app.store()
    with ledger.open("a") as acknowledged:
        async with app.worker():
            while not order.is_set():
                laned = work.call(0).using(key=str(os.getpid()))
                jobs = await app.enqueue(laned, *(work.call(number) for number in range(1, BATCH)))
                acknowledged.write("".join(f"{job.id}\n" for job in jobs))
                acknowledged.flush()
                await asyncio.sleep(PAUSE)
            asyncio.get_running_loop().remove_reader(sys.stdin)
            finish = sys.stdin.readline().strip() == "finish"
            while finish and any(
                number and not state.ended
                for states in (await store.jobs.count()).values()
                for state, number in states.items()
            ):
                await asyncio.sleep(PAUSE)
    ran: list[str] = []
    after = 0
    while events := await store.streams.read(RAN, after=after, limit=500):
        ran += [event.data.decode() for event in events]
        after = events[-1].offset
    sys.stdout.write(json.dumps(ran))
    await app.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
