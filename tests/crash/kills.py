"""SIGKILL of workers and producers at random moments: nothing acknowledged is lost, no effect is there twice."""

import random
import time
from collections import deque
from collections.abc import Callable

from tests.crash.audit import audit
from tests.crash.family import ChildProcess, ask, household, until
from tests.crash.scene import Scene
from tests.crash.tally import Tally

LIFE = 0.06  # seconds a process is at work before it may be the next to be killed


def kill_workers_and_producers(
    scene: Scene, tally: Tally, chance: random.Random, *, kills: int, jobs: int, ahead: int | None = None
) -> None:
    """Two workers and a producer: the oldest is killed, most often at work, sometimes while it starts, and replaced.

    With ``ahead``, no more than so many jobs may be left to do before the next one is killed.
    """
    done = workers = 0

    def keeping_up() -> bool:
        nonlocal done
        done += sum(record[0] == "done" for record in scene.ledger.fresh())
        return ahead is None or done + ahead >= 0.9 * scene.gate.allowed  # some die

    def producer() -> ChildProcess:
        return scene.producer(batch=100, seed=chance.randrange(1 << 30))

    roles: deque[Callable[[], ChildProcess]] = deque((scene.worker, producer, scene.worker))
    with household() as everyone:
        everyone += [role() for role in roles]
        for number in range(kills):
            scene.gate.open(jobs * (number + 1) // kills)
            until(keeping_up, "the workers to keep up")
            victim = everyone[0]
            if chance.random() < 0.9:
                victim.begun()
            time.sleep(chance.uniform(0, LIFE))
            tally.expect(victim.kill(), f"a process ended by itself with {victim.code}")
            tally.kills += 1
            workers += roles[0] is not producer
            everyone[:] = [*everyone[1:], roles[0]()]
            roles.rotate(-1)
        until(lambda: scene.gate.made >= jobs, "the producer to make the last jobs")
    answer = ask(lambda: audit(scene))
    tally.add(answer)
    tally.expect(answer["jobs"] >= jobs, f"only {answer['jobs']} jobs were made")
    tally.expect(answer["hit"] >= kills // 10, f"only {answer['hit']} jobs lost a lease: the kills hit nothing")
    tally.notes.append(
        f"{workers:,} of {kills:,} kills were of workers; {answer['hit']:,} jobs lost a lease and ran again"
    )
