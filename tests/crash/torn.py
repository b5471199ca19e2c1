"""SIGKILL of a worker that holds the write transaction of a SQLite file: it is as if it had never begun."""

import os
import random
import signal
import sqlite3
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tests.crash.audit import audit
from tests.crash.family import ChildProcess, ask, household, until
from tests.crash.scene import Scene
from tests.crash.tally import Tally

AHEAD = 300
EVERY = 20  # instructions of SQLite's machine between two chances to die
LOOK = 10


def kill_in_transaction(scene: Scene, tally: Tally, chance: random.Random, *, kills: int) -> None:
    """A worker that is sure to die inside a transaction, again and again, beside one that lives and a producer."""
    looks = []
    with household() as everyone:
        bystander, producer = scene.worker(), scene.producer(seed=chance.randrange(1 << 30))
        everyone += [bystander, producer]
        for number in range(kills):
            seed = chance.randrange(1 << 30)
            victim = scene.worker(armed=partial(_arm, random.Random(seed)))
            everyone[2:] = [victim]
            until(partial(_over, scene, victim), "the end of a process")
            code = victim.code
            tally.expect(code == -signal.SIGKILL, f"a worker ended with {code} instead of being killed")
            tally.kills += 1
            if number % LOOK == 0:
                looks.append(ask(lambda: _integrity(scene)))
        tally.expect(bystander.alive, f"the other worker ended with {bystander.code}")
        tally.expect(producer.alive, f"the producer ended with {producer.code}")
    tally.add(ask(lambda: audit(scene)))
    looks.append(ask(lambda: _integrity(scene)))
    tally.expect(set(looks) == {"ok"}, f"integrity_check: {looks}")
    tally.notes.append(f"integrity_check ok {looks.count('ok')} times")


def _over(scene: Scene, victim: ChildProcess) -> bool:
    """Whether it has died; as long as it lives, there is work to do for it."""
    scene.gate.open(scene.gate.made + AHEAD)
    return not victim.alive


def _arm(chance: random.Random) -> None:
    """Have this process killed by itself: after so many instructions inside write transactions, or before a commit.

    With room for few pages, much of a transaction is on its way to the disk before it is committed.
    """
    left = round(10 ** chance.uniform(0, 4)) if chance.random() < 0.8 else 0
    commits = chance.randint(1, 8)
    writing = False

    def count() -> int:
        nonlocal left
        left -= writing
        if writing and not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    class Mortal(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            nonlocal writing, commits
            if statement == "COMMIT" and writing and left < 1:
                commits -= 1
                if not commits:
                    os.kill(os.getpid(), signal.SIGKILL)
            cursor = super().execute("PRAGMA cache_size = 10" if "cache_size" in statement else statement, *values)
            writing = (writing or statement == "BEGIN IMMEDIATE") and self.in_transaction
            return cursor

    connect = sqlite3.connect

    def mortal(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options, factory=Mortal)
        connection.set_progress_handler(count, EVERY)
        return connection

    sqlite3.connect = mortal  # type: ignore[assignment]  # in this process alone


async def _integrity(scene: Scene) -> str:
    connection = sqlite3.connect(urlsplit(scene.url).path[1:])
    rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    connection.close()
    return "; ".join(rows)
