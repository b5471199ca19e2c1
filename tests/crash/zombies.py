"""SIGSTOP of workers inside a handler until others have done their jobs: what they say afterwards changes nothing."""

import fcntl
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Container
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from packhorse.engine.runners import Run, ThreadRunner
from tests.crash.audit import audit
from tests.crash.family import ChildProcess, ask, household, until
from tests.crash.scene import SETTINGS, Scene, job
from tests.crash.tally import Tally

AT_ONCE = 10
LEASE = 1_000_000  # long enough to be stopped before it runs out


class Nowhere:
    """Keeps no lease alive and notices nothing, as if that part were starved: only the store is left to refuse."""

    def start(self, name: str, run: Run) -> None:
        pass

    async def stop(self) -> None:
        pass


def stop_workers(scene: Scene, tally: Tally, chance: random.Random, *, zombies: int) -> None:
    """Make zombies a few at a time. They come back when others have done their jobs, or are still at it."""
    tally.fenced = 0
    for number, first in enumerate(range(0, zombies, AT_ONCE)):
        queues = [f"queue {n}" for n in range(first, min(zombies, first + AT_ONCE))]
        tally.fenced += _some(scene, tally, chance, queues, late=number % 2 == 0)
        tally.kills += len(queues)
    tally.add(ask(lambda: audit(scene)))
    tally.expect(tally.fenced == zombies, f"{tally.fenced} of {zombies} zombies were fenced")


def _some(scene: Scene, tally: Tally, chance: random.Random, queues: list[str], *, late: bool) -> int:
    jobs = [job("hold", queue=queue) for queue in queues]
    ids = {one.id.hex() for one in jobs}
    ask(lambda: scene.put(jobs))
    scene.gate.open(0)
    with household() as everyone:
        for number, queue in enumerate(queues):
            alone = msgspec.structs.replace(SETTINGS, queues={queue: 1}, concurrency=1, lease=LEASE)
            everyone.append(scene.worker(alone, place=Nowhere if number % 2 else ThreadRunner, holds=1))
        zombies = {str(child.pid): child for child in everyone}
        seen = Seen(scene)
        until(lambda: seen.jobs("begun", zombies) == ids, "the zombies to begin")
        time.sleep(chance.uniform(0, 0.05))
        _stop(scene, everyone, lambda: seen.inside(zombies) == ids)

        takes = msgspec.structs.replace(SETTINGS, queues=dict.fromkeys(queues, 1), lease=LEASE)
        taker = scene.worker(takes, holds=0 if late else 2)
        everyone.append(taker)
        word = "done" if late else "begun"
        until(lambda: seen.jobs(word, {str(taker.pid)}) == ids, "another to take the jobs of the zombies")

        scene.gate.open(1)
        after = Seen(scene)
        for child in zombies.values():
            child.send(signal.SIGCONT)
        until(lambda: after.jobs("lease_lost", zombies) == ids, "the zombies to be refused")
        scene.gate.open(2)
        until(lambda: late or after.jobs("done") == ids, "the jobs to be done")
        for child in everyone:
            child.send(signal.SIGTERM)
        for child in everyone:
            tally.expect(child.end() == 0, f"a worker ended with {child.code}")
    return len(after.jobs("lease_lost", zombies))


class Seen:
    """What is noted about jobs from now on."""

    def __init__(self, scene: Scene) -> None:
        self._ledger = scene.ledger
        self._records: list[list[str]] = []

    def jobs(self, word: str, by: Container[str] | None = None) -> set[str]:
        """The jobs of which some processes, or any, noted a word."""
        self._records += self._ledger.fresh()
        return {one for logged, one, pid, *_ in self._long() if logged == word and (by is None or pid in by)}

    def inside(self, by: Container[str]) -> set[str]:
        """The jobs whose handlers some processes have entered and not left."""
        self._records += self._ledger.fresh()
        entered: Counter[str] = Counter()
        for word, one, pid, *_ in self._long():
            if pid in by:
                entered[one] += {"begun": 1, "left": -1}.get(word, 0)
        return {one for one, times in entered.items() if times > 0}

    def _long(self) -> list[list[str]]:
        return [record for record in self._records if len(record) > 2]


def _stop(scene: Scene, zombies: list[ChildProcess], inside: Callable[[], bool]) -> None:
    """Stop them all in their handlers, but none inside a transaction, where it would stop everybody else as well."""

    def stopped() -> bool:
        for child in zombies:
            child.send(signal.SIGSTOP)
            child.stopped()
        if _free(scene) and inside():
            return True
        for child in zombies:
            child.send(signal.SIGCONT)
        return False

    until(stopped, "a moment in which all zombies are in their handlers and none is writing")


def _free(scene: Scene) -> bool:
    """Whether nobody is writing; servers look after that themselves."""
    if scene.kind != "sqlite":
        return True
    with Path(f"{urlsplit(scene.url).path[1:]}.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
