"""What is left when a scenario is over: the store is drained, then everything in it is held against the ledger."""

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec

from packhorse.engine.worker import Settings, Worker
from packhorse.model.event import Event
from packhorse.model.job import LEASE_US, State, StoredJob
from packhorse.stores.contract import Store
from tests.conformance.invariants import check
from tests.crash.family import PATIENCE
from tests.crash.scene import EFFECTS, SETTINGS, Scene
from tests.factories import found

CALM = msgspec.structs.replace(SETTINGS, lease=LEASE_US)  # no lease may run out, also on a busy machine


async def audit(scene: Scene, *, dead: int = 0, calm: bool = False, drain: bool = True) -> dict[str, Any]:
    """Count what is lost, doubled and stuck, and say what else is wrong; for a child.

    ``dead`` jobs, and no more, may have died. With ``calm`` no try but one may have been charged to any job.
    """
    store = scene.store()
    await store.open()
    try:
        if unknown := scene.unknown():
            await scene.put([scene.make(job) for job in unknown])
        if drain:
            await heal(scene, store, CALM if calm else SETTINGS)
        jobs = {job.id.hex(): job for job in await found(store, limit=1000)}
        faults = await _invariants(store)
        answer = _compared(scene, jobs, await effects_of(store), dead)
    finally:
        await store.close()
    if calm and (charged := [job for job in jobs.values() if job.attempt > 1 or job.lost]):
        faults.append(f"{len(charged)} jobs were charged for a try that was handed back")
    return {**answer, "faults": faults + answer["faults"]}


async def heal(scene: Scene, store: Store, settings: Settings) -> None:
    """Let one worker finish all there is, as long as that gets on."""
    async with Worker(store, scene.tasks(), settings, telemetry=scene.telling()):
        left, deadline = await unfinished(store), time.monotonic() + PATIENCE
        while left and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            left, before = await unfinished(store), left
            if left < before:
                deadline = time.monotonic() + PATIENCE / 2


async def unfinished(store: Store) -> int:
    """How many jobs have not ended."""
    counts = await store.jobs.count()
    return sum(number for by in counts.values() for state, number in by.items() if not State(state).ended)


async def ended(scene: Scene) -> bool:
    """Wait until every job has ended; for a child."""
    store = scene.store()
    await store.open()
    while await unfinished(store):
        await asyncio.sleep(0.05)
    await store.close()
    return True


async def _invariants(store: Store) -> list[str]:
    try:
        await check(store)
    except AssertionError as error:
        return [f"an invariant does not hold: {error}"]
    return []


def _compared(scene: Scene, jobs: dict[str, StoredJob], left: list[list[str]], dead: int) -> dict[str, Any]:
    """``left`` are the effects, each with its job and the token of its lease."""
    records, orders = scene.ledger.all(), scene.orders.all()
    kept = {job for word, job in orders if word == "kept"}
    tried = {job for word, job in orders if word == "tried"}
    settled = Counter(job for job, _ in {(record[1], record[3]) for record in records if record[0] == "done"})
    fenced = {(record[1], record[3]) for record in records if record[0] == "lease_lost"}
    done = {one for one, job in jobs.items() if job.state is State.DONE}
    died = {one for one, job in jobs.items() if job.state is State.DEAD}
    stuck = {one for one, job in jobs.items() if not job.state.ended}
    effects, faults = Counter(job for job, _ in left), []
    if ghosts := fenced & {(job, token) for job, token in left}:
        faults.append(f"{len(ghosts)} leases were lost and left an effect")
    if unknown := tried - kept:
        faults.append(f"of {len(unknown)} jobs nobody knows whether they were enqueued")
    if strange := set(jobs) - tried:
        faults.append(f"{len(strange)} jobs are there that nobody enqueued")
    dead += sum(scene.doomed(job) for job in jobs)
    if len(died) != dead:
        faults.append(f"{len(died)} jobs are dead instead of {dead}")
    if early := set(effects) - done:
        faults.append(f"{len(early)} jobs have an effect and are not done")
    if denied := set(settled) - done:
        faults.append(f"{len(denied)} jobs were settled as done and are not")
    return {
        "jobs": len(jobs),
        "lost": len(kept - set(jobs)) + len(done - set(effects)),
        "doubled": sum(count - 1 for count in effects.values()) + sum(count - 1 for count in settled.values()),
        "stuck": len(stuck),
        "hit": sum(1 for job in jobs.values() if job.lost),
        "faults": faults,
    }


async def effects_of(store: Store) -> list[list[str]]:
    """All effects in the order of their writing."""
    read: list[Event] = []
    while page := await store.streams.read(EFFECTS, after=read[-1].offset if read else 0, limit=1000):
        read += page
    return [event.data.decode().split() for event in read]
