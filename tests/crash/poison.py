"""Jobs that kill their worker: each is dead after three losses, and takes no good job with it."""

import random
import signal

import msgspec

from packhorse.model.job import MAX_LOST, State
from packhorse.model.reason import DeadReason
from tests.crash.audit import audit, ended
from tests.crash.family import PATIENCE, ask, fork, household, until
from tests.crash.scene import SETTINGS, Scene, job
from tests.crash.tally import Tally
from tests.factories import found


def poison_workers(
    scene: Scene, tally: Tally, chance: random.Random, *, poison: int, good: int, linger: int = 0
) -> None:
    """Two workers that are replaced when they die, until all jobs have ended.

    Jobs take up to so many milliseconds, also those that kill.
    """
    bad = [job("poison", pause=chance.uniform(0, linger / 1000)) for _ in range(poison)]
    jobs = [*bad, *(job("work", pause=chance.uniform(0, max(linger, 5) / 1000)) for _ in range(good))]
    chance.shuffle(jobs)
    ask(lambda: scene.put(jobs))
    settings = msgspec.structs.replace(SETTINGS, max_lost=MAX_LOST, lease=1_500_000)

    with household() as everyone:
        watcher = fork(lambda _: ended(scene))
        everyone += [watcher, scene.worker(settings), scene.worker(settings)]

        def over() -> bool:
            for place, child in enumerate(everyone[1:], 1):
                if not child.alive:
                    tally.expect(child.code == -signal.SIGKILL, f"a worker ended with {child.code}")
                    tally.kills += 1
                    everyone[place] = scene.worker(settings)
            return not watcher.alive

        until(over, "all jobs to end", 2 * PATIENCE)
    tally.add(ask(lambda: audit(scene, dead=poison, drain=False)))
    tally.faults += ask(lambda: _judged(scene, {one.id for one in bad}))
    if poison == 1:
        tally.expect(tally.kills == MAX_LOST, f"{tally.kills} workers died instead of {MAX_LOST}")
    tally.expect(tally.kills <= MAX_LOST * poison, f"{tally.kills} workers died of {poison} jobs")


async def _judged(scene: Scene, bad: set[bytes]) -> list[str]:
    store = scene.store()
    await store.open()
    jobs = await found(store, limit=1000)
    await store.close()
    faults = []
    for one in jobs:
        if one.id in bad:
            if (one.state, one.reason, one.lost) != (State.DEAD, DeadReason.POISON, MAX_LOST):
                faults.append(f"a poison job is {one.state} as {one.reason} after {one.lost} losses")
        elif one.state is not State.DONE:
            faults.append(f"a good job is {one.state} as {one.reason} after {one.lost} losses")
    return faults
