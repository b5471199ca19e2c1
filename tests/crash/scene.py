"""Where a scenario plays: a store, a ledger, the tasks, and the lives of its workers and producers."""

import asyncio
import mmap
import os
import random
import signal
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packhorse.engine.context import Context, current
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry, Registry, Run
from packhorse.engine.runners import Runner, ThreadRunner
from packhorse.engine.signals import Retry
from packhorse.engine.worker import Settings, Worker
from packhorse.errors import OutcomeUnknown, StoreUnavailable
from packhorse.model.codec import encode
from packhorse.model.ids import new_id
from packhorse.model.job import NewJob, Retention
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Fields, Telemetry
from packhorse.telemetry.names import EventName
from tests.crash.family import ChildProcess, Say, fork
from tests.crash.ledger import Ledger

LEASE = 500_000
NEVER_POISON = 30_000
EFFECTS = "effects"
KEEP = Retention(10_000_000, 86_400_000_000)
POLICY = Policy(attempts=100_000, keep_done=KEEP, keep_dead=KEEP)
SETTINGS = Settings(concurrency=10, lease=LEASE, max_lost=NEVER_POISON)


class Gate:
    """Two numbers that all processes see: how many jobs may be made, and how many were."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def open(self, jobs: int) -> None:
        self._memory[:8] = struct.pack("q", jobs)

    def came(self, jobs: int) -> None:
        self._memory[8:] = struct.pack("q", self.made + jobs)

    @property
    def allowed(self) -> int:
        return int(struct.unpack("q", self._memory[:8])[0])

    @property
    def made(self) -> int:
        return int(struct.unpack("q", self._memory[8:])[0])


@dataclass
class Scene:
    """One scenario on one store. Workers note in the ledger what happened, producers in the orders what they enqueued.

    ``slack`` is what a busy machine may add, in seconds, to what must happen in a certain time.
    """

    kind: str
    url: str
    namespace: str
    folder: Path
    slack: float = 0.0
    make: Callable[[bytes], NewJob] = field(default_factory=lambda: mixed)
    more: Sequence[Entry] = ()  # tasks of this scenario alone
    doomed: Callable[[str], bool] = lambda _: False  # whether a job is to die
    ledger: Ledger = field(init=False)
    orders: Ledger = field(init=False)
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        self.ledger, self.orders = Ledger(self.folder / "ledger"), Ledger(self.folder / "orders")

    def store(self) -> Store:
        """The store, not yet open; for a child."""
        return open_store(self.url, namespace=self.namespace)

    async def prepare(self) -> None:
        """Make an empty store ready."""
        store = self.store()
        await store.migrate()
        await store.close()

    def tasks(self, held: Callable[[], bool] = lambda: False) -> Registry:
        """What workers can run here."""
        registry = tasks(self.ledger, held=held)
        for entry in self.more:
            registry.add(entry)
        return registry

    # -- the processes

    def worker(
        self,
        settings: Settings = SETTINGS,
        *,
        place: Callable[[], Runner] = ThreadRunner,
        armed: Callable[[], None] | None = None,
        holds: int = 0,
    ) -> ChildProcess:
        """A worker process, until it is asked to stop or killed.

        ``armed`` may do something to the process before; jobs that hold wait until the gate is open so far.
        """

        async def life(say: Say) -> None:
            if armed is not None:
                armed()
            store = self.store()
            await store.open()
            known = self.tasks(lambda: self.gate.allowed < holds)
            worker = Worker(store, known, settings, telemetry=self.telling(), place=place)
            say(b"1")
            await worker.run()
            await store.close()

        return fork(life)

    def producer(self, *, batch: int = 50, seed: int = 0) -> ChildProcess:
        """A producer process: first it repeats what nobody knows of, then it makes as many jobs as it may."""

        async def life(say: Say) -> None:
            store, chance = self.store(), random.Random(seed)
            await store.open()
            say(b"1")
            unknown = self.unknown()
            if unknown:
                await self._enqueue(store, [self.make(job) for job in unknown])
            while True:
                count = min(chance.randint(1, batch), self.gate.allowed - self.gate.made)
                if count > 0:
                    await self._enqueue(store, [self.make(new_id()) for _ in range(count)])
                else:
                    await asyncio.sleep(0.002)

        return fork(life)

    async def _enqueue(self, store: Store, jobs: list[NewJob]) -> None:
        """Note what is tried, enqueue it, with the same ids for as long as that may have failed, note what was kept."""
        self.orders.note(*(f"tried {job.id.hex()}" for job in jobs))
        while True:
            try:
                receipts = await store.jobs.enqueue(jobs)
                break
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0.02)
        self.orders.note(*(f"kept {receipt.id.hex()}" for receipt in receipts))
        self.gate.came(len(jobs))

    def unknown(self) -> list[bytes]:
        """Jobs that were tried by a producer that did not live to hear of it."""
        tried: dict[str, None] = {}
        for word, job in self.orders.last():
            if word == "tried":
                tried[job] = None
            elif word == "kept":
                tried.pop(job, None)
        return [bytes.fromhex(job) for job in tried]

    async def put(self, jobs: list[NewJob]) -> None:
        """Enqueue jobs, once and for all; for a child."""
        store = self.store()
        await store.open()
        for first in range(0, len(jobs), 500):
            await self._enqueue(store, jobs[first : first + 500])
        await store.close()

    # -- what workers tell

    def telling(self) -> Telemetry:
        """Telemetry that goes to the ledger."""
        telemetry = Telemetry()
        telemetry.on(self._tell, EventName.DONE, EventName.LEASE_LOST, EventName.WORKER_STOPPING, EventName.HANDED_BACK)
        telemetry.on(lambda name, fields: self.ledger.note(f"{name.value} {fields['job'].hex()}"), EventName.LOST)
        return telemetry

    def _tell(self, name: EventName, fields: Fields) -> None:
        lease = fields.get("lease")
        self.ledger.note(f"{name.value} {lease.id.hex()} {os.getpid()} {lease.token.hex()}" if lease else name.value)


def job(
    task: str, id: bytes | None = None, *, queue: str = "default", lane: str | None = None, **arguments: Any
) -> NewJob:
    """A job of one of the tasks."""
    return NewJob(task=task, id=id or new_id(), queue=queue, lane=lane, payload=encode(arguments))


def mixed(id: bytes) -> NewJob:
    """A job of any kind, always the same for an id: so an unknown one can be repeated as it was."""
    chance = random.Random(id)
    lane = f"lane {chance.randrange(64)}" if chance.random() < 0.05 else None
    pause = chance.uniform(0, 0.02) if chance.random() < 0.2 else 0.0
    task = "threaded" if chance.random() < 0.2 else "work"
    return job(task, id, lane=lane, pause=pause, again=chance.random() < 0.05)


def tasks(ledger: Ledger, *, held: Callable[[], bool]) -> Registry:
    """What workers can run; each that comes to its end leaves its job as an effect."""

    def note(word: str, ctx: Context) -> None:
        ledger.note(f"{word} {ctx._attempt.lease.id.hex()} {os.getpid()}")

    def leave(ctx: Context) -> None:
        ctx.publish(EFFECTS, f"{ctx._attempt.lease.id.hex()} {ctx._attempt.lease.token.hex()}".encode())

    async def work(pause: float, again: bool = False, reported: bool = False) -> None:
        ctx = current()
        if reported:
            note("begun", ctx)
        if again and ctx.attempt == 1:
            raise Retry(0)
        if pause:
            await asyncio.sleep(pause)
        leave(ctx)

    def threaded(pause: float, again: bool = False, reported: bool = False) -> None:
        ctx = current()
        if reported:
            note("begun", ctx)
        if again and ctx.attempt == 1:
            raise Retry(0)
        time.sleep(pause)
        leave(ctx)

    async def hold() -> None:
        """Where jobs are held, wait for the gate to be opened."""
        ctx = current()
        note("begun", ctx)
        try:
            while held():
                await asyncio.sleep(0.005)
            leave(ctx)
        finally:
            note("left", ctx)

    async def poison(pause: float) -> None:
        await asyncio.sleep(pause)
        os.kill(os.getpid(), signal.SIGKILL)

    registry = Registry()
    for call, run in ((work, Run.ASYNC), (threaded, Run.THREAD), (hold, Run.ASYNC), (poison, Run.ASYNC)):
        registry.add(Entry(name=call.__name__, call=call, run=run, policy=POLICY))
    return registry
