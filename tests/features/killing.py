"""Workers of ``tests.features.programs``, one of them killed now and then and replaced, until SIGTERM.

Two on the lanes, two on plans, five on the ticks of schedules, or four on dead letters.

Run as a program. They are forked from a small parent: a fork costs a millisecond, a fresh Python some hundred. The ledger
is informed of each death, after it.
"""

import asyncio
import logging
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from packhorse.app_worker import AppWorker, origin
from packhorse.engine.worker import Settings, Worker
from tests.features.programs import app, note

NEVER_POISON = 30_000


async def lanes(lease: int) -> None:
    """Work on the lanes for ever."""
    await work("lanes", lease)


async def plans(lease: int) -> None:
    """Work on plans for ever."""
    await work("plans", lease)


async def work(queue: str, lease: int) -> None:
    """Work on a queue for ever, whatever is lost."""
    async with app:
        settings = Settings(
            queues={queue: 1},
            lease=lease,
            max_lost=NEVER_POISON,
            origin=origin(app, app.registry.modules, app.found_at),
        )
        async with Worker(await app.store(), app.registry, settings, telemetry=app.telemetry):
            await asyncio.Event().wait()


async def ticks(lease: int) -> None:
    """Fire schedules and run what they make for ever."""
    async with app, app.worker("ticks", lease=lease / 1_000_000):
        await asyncio.Event().wait()


async def letters(lease: int) -> None:
    """Let jobs die and handle their letters for ever, whatever is lost."""
    from tests.features.letter_programs import app

    settings = Settings(queues={"letters": 1}, lease=lease, max_lost=NEVER_POISON, release=app.release)
    async with app, AppWorker(settings, app.workers.make):
        await asyncio.Event().wait()


SCENES = {
    "lanes": (lanes, 2, 0.3),
    "plans": (plans, 2, 0.3),
    "ticks": (ticks, 5, 2),
    "letters": (letters, 4, 0.4),
}  # what each does, how many, seconds between deaths


def begin(live: Callable[[int], Coroutine[Any, Any, None]], lease: int) -> int:
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


def main(scene: str, lease: int, seed: int) -> None:
    logging.getLogger("packhorse").setLevel(logging.CRITICAL)  # that jobs are lost is the point here
    live, count, every = SCENES[scene]
    chance = random.Random(seed)
    alive = [begin(live, lease) for _ in range(count)]
    reported = []
    signal.signal(signal.SIGTERM, lambda *_: reported.append(1))
    while not reported:
        time.sleep(chance.uniform(0.5, 1.5) * every)
        end(alive.pop(chance.randrange(count)))
        alive.append(begin(live, lease))
    for process in alive:
        end(process)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
