"""Servers killed and started again under workers and a producer that live on: they find back by themselves."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from packhorse.model.job import NewJob
from tests.crash.audit import audit
from tests.crash.family import PATIENCE, ChildProcess, TooSlow, ask, household, until
from tests.crash.scene import SETTINGS, Scene, job
from tests.crash.tally import Tally
from tests.servers import Server

BACK = 5.0  # seconds after the server's return in which every worker must have settled a job
AHEAD = 400  # jobs that are there for workers to find


def brief(id: bytes) -> NewJob:
    """A job that takes some milliseconds."""
    return job("work", id, pause=random.Random(id).uniform(0, 0.01))


def kill_server(
    scene: Scene,
    tally: Tally,
    chance: random.Random,
    *,
    kills: int,
    server: Server,
    make: Callable[[bytes], NewJob] = brief,
) -> None:
    """The server is killed while jobs come and go, is away for a moment, and comes back with what it had."""
    scene.make = make
    waits = []
    with household() as everyone:
        workers = [scene.worker(msgspec.structs.replace(SETTINGS, grace=5_000_000)) for _ in range(2)]
        everyone += [*workers, scene.producer(seed=chance.randrange(1 << 30))]
        pace = Pace(scene)
        for _ in range(kills):
            pace.await_all(workers, "the workers to work", jobs=chance.randint(10, 60))
            server.kill()
            tally.kills += 1
            time.sleep(chance.uniform(0, 0.3))
            server.restart()
            waits.append(pace.await_all(workers, "the workers to work again", jobs=1))
        for child in everyone:
            tally.expect(child.alive, f"a process ended with {child.code}")
        for child in workers:
            child.send(signal.SIGTERM)
        for child in workers:
            tally.expect(child.end() == 0, f"a worker ended with {child.code}")
    tally.add(ask(lambda: audit(scene)))
    tally.expect(max(waits) <= BACK + scene.slack, f"a worker needed {max(waits):.1f} s to work again")
    tally.notes.append(f"working again {max(waits):.2f} s after the server at the latest")


class Pace:
    """Lets a producer make jobs as they are done, and watches whether every worker does some."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._done: Counter[str] = Counter()
        self._look()

    def await_all(self, workers: Sequence[ChildProcess], what: str, *, jobs: int) -> float:
        """Wait until each worker has settled so many more jobs, and answer how long that took."""
        begun = time.monotonic()
        self._look()
        goals = {str(child.pid): self._done[str(child.pid)] + jobs for child in workers}

        def each() -> bool:
            self._look()
            if ended := [child.code for child in workers if not child.alive]:
                raise TooSlow(f"a worker ended with {ended[0]} before it did its jobs")
            return all(self._done[pid] >= goal for pid, goal in goals.items())

        until(each, what, PATIENCE)
        return time.monotonic() - begun

    def _look(self) -> None:
        self._done.update(record[2] for record in self._scene.ledger.fresh() if record[0] == "done")
        self._scene.gate.open(self._done.total() + AHEAD)
