"""Two workers on the lanes of ``tests.features.programs``, one of them killed now and then and replaced, until SIGTERM.

Run as a program. They are forked from a small parent: a fork costs a millisecond, a fresh Python some hundred. The ledger
is told of each death, after it.
"""

import asyncio
import logging
import os
import random
import signal
import sys
import time
import traceback

from packhorse.engine.worker import Settings, Worker
from tests.features.programs import app, note

EVERY = 0.3
NEVER_POISON = 30_000


async def live(lease: int) -> None:
    """Work on the lanes for ever."""
    async with app:
        settings = Settings(queues={"lanes": 1}, lease=lease, max_lost=NEVER_POISON, origin=app._origin())
        async with Worker(await app.store(), app.registry, settings, telemetry=app.telemetry):
            await asyncio.Event().wait()


def begin(lease: int) -> int:
    """Fork a worker and answer its process id."""
    process = os.fork()
    if not process:
        try:
            asyncio.run(live(lease))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return process


def end(process: int) -> None:
    """Kill a worker, wait until it is dead, and say so."""
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    note("killed", process)


def main(lease: int, seed: int) -> None:
    logging.getLogger("packhorse").setLevel(logging.ERROR)  # that jobs are lost is the point here
    chance = random.Random(seed)
    alive = [begin(lease), begin(lease)]
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    while not told:
        time.sleep(chance.uniform(0.5, 1.5) * EVERY)
        end(alive.pop(chance.randrange(2)))
        alive.append(begin(lease))
    for process in alive:
        end(process)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
