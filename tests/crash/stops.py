"""SIGTERM: what runs may end within the grace, what does not is handed back uncharged, the worker ends in time."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import msgspec

from packhorse.model.job import LEASE_US, NewJob, State
from tests.crash.audit import audit
from tests.crash.family import PATIENCE, ChildProcess, ask, household, until
from tests.crash.outages import Pace
from tests.crash.scene import SETTINGS, Scene, job
from tests.crash.tally import Tally
from tests.factories import found

RUNNING = 50
MORE = 30  # jobs that no slot is free for
LAST = 1.0  # seconds beyond the grace in which a worker must have ended
STOPPED = msgspec.structs.replace(SETTINGS, concurrency=RUNNING, lease=LEASE_US)


def stop_in_time(scene: Scene, tally: Tally, chance: random.Random) -> None:
    """All that runs ends within the grace, what waits for a slot is handed back."""
    begun = _stopped(scene, tally, grace=10.0, pause=0.3)
    tally.faults += ask(lambda: _states(scene, begun))
    tally.add(ask(lambda: audit(scene, calm=True)))


def stop_too_late(scene: Scene, tally: Tally, chance: random.Random) -> None:
    """Nothing ends within the grace: all is handed back."""
    _stopped(scene, tally, grace=0.5, pause=600)
    tally.faults += ask(lambda: _states(scene, set()))
    tally.jobs += RUNNING + MORE


def stop_twice(scene: Scene, tally: Tally, chance: random.Random) -> None:
    """A second signal ends the grace."""
    _stopped(scene, tally, grace=600.0, pause=600, twice=True)
    tally.faults += ask(lambda: _states(scene, set()))
    tally.jobs += RUNNING + MORE


def _stopped(scene: Scene, tally: Tally, *, grace: float, pause: float, twice: bool = False) -> set[str]:
    """Stop a worker that runs fifty jobs, half of them in threads; the jobs that had begun."""
    names = ("work", "threaded")
    ask(lambda: scene.put([job(names[n % 2], pause=pause, reported=True) for n in range(RUNNING + MORE)]))
    with household() as everyone:
        worker = scene.worker(msgspec.structs.replace(STOPPED, grace=round(grace * 1_000_000)))
        everyone.append(worker)
        begun: set[str] = set()
        logged: set[str] = set()

        def look() -> None:
            for record in scene.ledger.fresh():
                logged.add(record[0])
                if record[0] == "begun":
                    begun.add(record[1])

        def enough() -> bool:
            look()
            return len(begun) >= RUNNING

        def stopping() -> bool:
            look()
            return "worker_stopping" in logged

        until(enough, "fifty jobs to run")
        asked = time.monotonic()
        worker.send(signal.SIGTERM)
        if twice:
            until(stopping, "the worker to hear the signal")
            asked, grace = time.monotonic(), 0.0
            worker.send(signal.SIGTERM)
        _ends(scene, tally, worker, asked, grace)
        look()
    return begun


def _ends(scene: Scene, tally: Tally, worker: ChildProcess, asked: float, grace: float) -> None:
    before = starved = _starved(worker)

    def over() -> bool:
        nonlocal starved
        starved = max(starved, _starved(worker))
        return not worker.alive

    until(over, "a worker to end", grace + PATIENCE)
    took, starved = time.monotonic() - asked, starved - before
    tally.kills += 1
    tally.expect(worker.code == 0, f"a worker ended with {worker.code}")
    words = f"ended {took:.2f} s after the signal ({starved:.2f} s without a CPU), with a grace of {grace:g} s"
    tally.expect(took - starved <= grace + LAST + scene.slack, f"a worker {words}")
    tally.notes.append(words)


def _starved(worker: ChildProcess) -> float:
    """The seconds for which a process could have run and others did: what a busy machine adds to any time."""
    try:
        return int(Path(f"/proc/{worker.pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # it is gone, or this is another system
        return 0.0


async def _states(scene: Scene, done: set[str]) -> list[str]:
    """Those that began and could end are done, all others are ready and were not charged."""
    store = scene.store()
    await store.open()
    jobs = await found(store, limit=1000)
    await store.close()
    expected: dict[bool, tuple[Any, ...]] = {True: (State.DONE, 1, 0), False: (State.READY, 0, 0)}
    found_ = [(expected[one.id.hex() in done], (one.state, one.attempt, one.lost)) for one in jobs]
    faults = [f"a job is {is_} instead of {should}" for should, is_ in found_ if should != is_][:3]
    return faults if len(jobs) == RUNNING + MORE else [f"{len(jobs)} jobs of {RUNNING + MORE} are there", *faults]


def varied(id: bytes) -> NewJob:
    """A job that takes up to a tenth of a second, longer than the grace or not."""
    return job("work", id, pause=random.Random(id).uniform(0, 0.1))


def roll(scene: Scene, tally: Tally, chance: random.Random, *, stops: int) -> None:
    """Every worker is replaced under load: a fresh one comes, then an old one is asked to stop."""
    scene.make = varied
    settings = msgspec.structs.replace(SETTINGS, lease=LEASE_US, grace=50_000)
    pace = Pace(scene)
    with household() as everyone:
        everyone += [scene.producer(seed=chance.randrange(1 << 30)), scene.worker(settings), scene.worker(settings)]
        for _ in range(stops):
            old, fresh = everyone[1], scene.worker(settings)
            everyone.append(fresh)
            pace.await_all((old, fresh), "the workers to work", jobs=chance.randint(5, 30))
            asked = time.monotonic()
            old.send(signal.SIGTERM)
            _ends(scene, tally, everyone.pop(1), asked, 0.05)
        tally.expect(all(child.alive for child in everyone), "a process ended by itself")
        for child in everyone[1:]:
            child.send(signal.SIGTERM)
        for child in everyone[1:]:
            tally.expect(child.end() == 0, f"a worker ended with {child.code}")
    tally.add(ask(lambda: audit(scene, calm=True)))
    back = sum(record[0] == "handed_back" for record in scene.ledger.all())
    tally.expect(back, "no job was handed back")
    tally.notes = [f"{back} jobs handed back uncharged"]
