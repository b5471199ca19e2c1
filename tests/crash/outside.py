"""Workers killed from outside while they run many jobs: none of the jobs is dead of it, however often it was lost."""

import asyncio
import mmap
import random
import signal
import struct
import time
from collections import Counter
from itertools import count

import msgspec

from packhorse.model.ids import new_id, new_token
from packhorse.model.job import MAX_LOST, State
from packhorse.model.lease import ClaimRequest, Share
from packhorse.telemetry.names import EventName
from tests.crash.audit import audit
from tests.crash.family import Say, ask, fork, household, until
from tests.crash.scene import SETTINGS, Scene, mixed
from tests.crash.tally import Tally
from tests.factories import found

AHEAD, SHORT = 100, 100_000
LIFE = 0.1  # seconds a worker is at work at most before it is killed


class Alone:
    """How many jobs may run alone at this moment, as seen by a process that keeps looking."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._memory = scene, mmap.mmap(-1, 16)
        self.watcher = fork(self._look)

    def now(self) -> int:
        """What a look sees that begins now."""
        looks, _ = self._seen()
        until(lambda: self._seen()[0] >= looks + 2, "a look at the store")
        return self._seen()[1]

    def _seen(self) -> tuple[int, int]:
        looks, alone = struct.unpack("qq", self._memory[:])
        return int(looks), int(alone)

    async def _look(self, say: Say) -> None:
        store = self._scene.store()
        await store.open()
        say(b"1")
        for looks in count(1):
            running = await found(store, limit=1000, state=State.RUNNING)
            self._memory[:] = struct.pack("qq", looks, sum(job.lost >= MAX_LOST - 1 for job in running))
            await asyncio.sleep(0.002)


def kill_from_outside(scene: Scene, tally: Tally, chance: random.Random, *, kills: int, jobs: int) -> None:
    """One worker after the other is killed: as soon as it has leased jobs, or at a random moment.

    It is spared while it runs one job alone: nobody could tell who killed it then.
    """
    ask(lambda: scene.put([mixed(new_id()) for _ in range(jobs)]))
    settings = msgspec.structs.replace(SETTINGS, max_lost=MAX_LOST)
    alone = Alone(scene)
    alone.watcher.begun()
    with household() as everyone:
        everyone += [alone.watcher]
        for number in range(kills):
            victim = scene.worker(settings) if number % 2 else fork(lambda say: _lease(scene, say))
            everyone[1:] = [victim]
            victim.begun()
            while number % 2:
                time.sleep(chance.uniform(0, LIFE))
                victim.send(signal.SIGSTOP)
                victim.stopped()
                if not alone.now():
                    break
                victim.send(signal.SIGCONT)
            tally.expect(victim.kill(), f"a worker ended by itself with {victim.code}")
            tally.kills += 1
    answer = ask(lambda: audit(scene))
    losses = Counter(record[1] for record in scene.ledger.all() if record[0] == EventName.LOST.value)
    often = sum(times >= MAX_LOST for times in losses.values())
    tally.add(answer)
    tally.expect(answer["hit"] >= kills, f"only {answer['hit']} jobs lost a lease: the kills hit nothing")
    tally.expect(often, f"no job lost {MAX_LOST} leases")
    tally.notes.append(f"{answer['hit']:,} jobs lost a lease, {often:,} of them {MAX_LOST} or more")


async def _lease(scene: Scene, say: Say) -> None:
    """A worker that lives until it has taken back and leased jobs, and begins none of them."""
    store = scene.store()
    await store.open()
    scene.ledger.note(*(f"{EventName.LOST.value} {lost.id.hex()}" for lost in await store.jobs.reap(1000)))
    await store.jobs.exchange((), ClaimRequest(new_token(), (Share("default", AHEAD),), SHORT))
    say(b"1")
    await asyncio.Event().wait()
