"""Processes that enqueue, claim and settle until they are killed with SIGKILL, again and again.

Run as a program: forks two such processes at a time from a small parent (a fork costs a millisecond, a fresh Python a
hundred), kills each after some rounds of work and a random moment more, and replaces it, until so many were killed. Rounds
are counted, so that a busy machine, on which each takes longer, does not leave them without work. What a process was reported by the
store goes to its ledger right away: ``E id`` for an acknowledged enqueue, ``S id`` for a written settlement.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from packhorse.errors import StoreError
from packhorse.model.effect import Publish
from packhorse.model.ids import new_id
from packhorse.model.job import NewJob
from packhorse.model.lease import ClaimRequest, Settlement, Share, Verdict
from packhorse.model.outcome import Again, Done
from packhorse.stores import open_store

Life = Callable[
    [str, str, int, int, random.Random], Coroutine[Any, Any, None]
]  # what a process does until it is killed
LEASE = 400_000
SETTLED = "settled"
ROUNDS = 8
MOMENT = 0.02  # seconds, about as long as a round takes where each write is on the disk
NEVER_POISON = 30_000


async def live(url: str, namespace: str, ledger: int, begun: int, chance: random.Random) -> None:
    """Enqueue, claim and settle for ever; says so once it is under way, and after each round."""
    store = open_store(url, namespace=namespace)
    await store.open()
    os.write(begun, b"1")
    worker, settlements = os.urandom(16), []
    while True:
        if chance.random() < 0.4:
            lanes = [f"k{chance.randrange(8)}" if chance.random() < 0.3 else None for _ in range(chance.randint(1, 12))]
            receipts = await store.jobs.enqueue([NewJob(task="work", id=new_id(), lane=lane) for lane in lanes])
            note(ledger, "E", [receipt.id for receipt in receipts])
        answer = await store.jobs.exchange(settlements, ClaimRequest(worker, (Share("default", 20),), LEASE))
        written = zip(settlements, answer.verdicts, strict=True)
        note(ledger, "S", [s.lease.id for s, v in written if v is Verdict.WRITTEN and isinstance(s.outcome, Done)])
        settlements = [
            Settlement(lease, Again(0))
            if chance.random() < 0.1
            else Settlement(lease, Done(), (Publish(SETTLED, lease.id.hex().encode()),))
            for lease in answer.leases
        ]
        if chance.random() < 0.1:
            await store.jobs.reap(100, max_lost=NEVER_POISON)
        os.write(begun, b"1")


def note(ledger: int, letter: str, ids: list[bytes]) -> None:
    """Write down what the store writer; one write, so that a kill leaves whole lines."""
    if ids:
        os.write(ledger, "".join(f"{letter} {job.hex()}\n" for job in ids).encode())


def spawn(url: str, namespace: str, ledger: int, seed: int, live: Life) -> tuple[int, int]:
    """Fork one process that lives until it is killed; its pid, and where it says that it is under way."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        asyncio.run(live(url, namespace, ledger, writer, random.Random(seed)))
    except StoreError as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(7)


def wait_for_rounds(reader: int, count: int) -> None:
    """Return when a process has said so many times that it is under way, or has ended."""
    while count > 0 and (signs := os.read(reader, count)):
        count -= len(signs)


def kill(process: tuple[int, int]) -> bool:
    """Kill a process the hard way, and say whether it was still alive."""
    pid, reader = process
    os.kill(pid, signal.SIGKILL)
    os.close(reader)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def main(url: str, namespace: str, path: str, kills: int, seed: int, live: Life = live) -> None:
    """Keep two processes alive until so many were killed: most of them at work, some while they open the store."""
    chance = random.Random(seed)
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    living = [spawn(url, namespace, ledger, chance.randrange(1 << 30), live) for _ in range(2)]
    alive = 0
    for _ in range(kills):
        victim = living.pop(0)
        if chance.random() < 0.9:
            wait_for_rounds(victim[1], chance.randint(1, ROUNDS))
        time.sleep(chance.uniform(0, MOMENT))
        alive += kill(victim)
        living.append(spawn(url, namespace, ledger, chance.randrange(1 << 30), live))
    for process in living:
        kill(process)
    sys.exit(0 if alive == kills else 9)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
