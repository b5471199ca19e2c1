"""A call of a SQL store that is broken at any of its writes has written nothing, and works when it is made again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from packhorse.errors import StoreError, StoreFull
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import NewJob, Retention, UniqueKey
from packhorse.model.lease import ClaimRequest, Lease, Settlement, Verdict
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores.contract import Store
from tests import business
from tests.conformance.invariants import check
from tests.conftest import kinds
from tests.factories import (
    BROKEN,
    DEAD,
    HOUR,
    MINUTE,
    OTHER,
    Again,
    Done,
    Wait,
    ask,
    found,
    laned,
    new,
    put_in,
    run,
    take,
)  # fmt: skip
from tests.integration.breaking import HOW, breaking
from tests.integration.torn import LONG

KINDS = [("memory", "an error")] if "memory" in kinds() else []
KINDS += [("postgres", how) for how in HOW] if "postgres" in kinds() else []
STRIDE = 1 if LONG else 5
if not KINDS:
    pytest.skip("neither SQLite nor PostgreSQL is among the stores to test", allow_module_level=True)


@dataclass
class Scene:
    """Jobs in every state, and what the calls are about."""

    ready: NewJob
    behind: NewJob
    scheduled: NewJob
    dead: NewJob
    parent: NewJob
    held: list[Lease]
    fresh: NewJob
    wanted: ClaimRequest


async def scene(store: Store, clock: Any) -> Scene:
    dead, waiting, pruned = new(priority=0), new(priority=1), new(priority=2)
    await put_in(store, dead, waiting, pruned)
    await run(store, DEAD)
    await run(store, Wait(WaitReason.UNROUTABLE))
    await run(store, Done(b"1", Retention(0, 0)))
    parent = new(children=1)
    await put_in(store, laned(priority=0), new(priority=0, parent=parent.id), parent)
    held = await take(store, 2)
    ready, behind, scheduled = new(), laned(), laned(delay=HOUR)
    await put_in(store, ready, behind, scheduled, laned("b", delay=1))
    await store.records.put([Put("kind", "there", b"1")])
    clock.turn(MINUTE)
    return Scene(ready, behind, scheduled, dead, parent, held, laned(unique=UniqueKey("k")), ask(2))


def settle(store: Store, scene: Scene, outcome: Any) -> Awaitable[Any]:
    effects = (Enqueue(scene.fresh), Publish("news", b"1"), Put("kind", "there", b"2"))
    return store.jobs.exchange([Settlement(lease, outcome, effects) for lease in scene.held], scene.wanted)


Verb = Callable[[Store, Scene], Awaitable[Any]]
VERBS: dict[str, Verb] = {
    "enqueue": lambda store, scene: store.jobs.enqueue([new(id=OTHER)]),
    "enqueue unique and laned": lambda store, scene: store.jobs.enqueue([scene.fresh]),
    "exchange done": lambda store, scene: settle(store, scene, Done(b"1")),
    "exchange again": lambda store, scene: settle(store, scene, Again(MINUTE, BROKEN)),
    "exchange dead": lambda store, scene: settle(store, scene, DEAD),
    "exchange wait": lambda store, scene: settle(store, scene, Wait(WaitReason.UNROUTABLE)),
    "fire": lambda store, scene: store.jobs.fire([(Enqueue(scene.fresh), Publish("news", b"1")), (Put("kind", "x", b"1"),)]),
    "renew": lambda store, scene: store.jobs.renew(scene.held, MINUTE),
    "reap": lambda store, scene: store.jobs.reap(10),
    "reap poison": lambda store, scene: store.jobs.reap(10, max_lost=1),
    "release": lambda store, scene: store.jobs.release(WaitReason.UNROUTABLE),
    "cancel": lambda store, scene: store.jobs.cancel([scene.ready.id, scene.behind.id, scene.parent.id, scene.held[0].id]),
    "replay": lambda store, scene: store.jobs.replay([scene.dead.id]),
    "promote": lambda store, scene: store.jobs.promote([scene.scheduled.id]),
    "note": lambda store, scene: store.jobs.note([(lease, b"50") for lease in scene.held]),
    "watch": lambda store, scene: store.jobs.watch([scene.ready.id], MINUTE),
    "prune": lambda store, scene: store.jobs.prune(10),
    "drop": lambda store, scene: store.jobs.drop([scene.dead.id, scene.parent.id, scene.held[0].id]),
    "pause": lambda store, scene: store.queues.pause(["default", "other"]),
    "put": lambda store, scene: store.records.put([Put("kind", "a", b"1"), Put("kind", "there", b"2")]),
    "drop records": lambda store, scene: store.records.drop("kind", ["there"]),
    "publish": lambda store, scene: store.streams.publish([Publish("news", b"1"), Publish("olds", b"2")]),
    "beat": lambda store, scene: store.fleet.beat(WorkerInfo(id=OTHER, name="one"), MINUTE),
}  # fmt: skip


async def everything(store: Store) -> Any:
    jobs = sorted(await found(store, limit=1000), key=lambda job: job.id)
    counts = {(queue, state): n for queue, by in (await store.jobs.count()).items() for state, n in by.items() if n}
    records = [(await store.records.find(kind)).items for kind in ("kind", "packhorse.delivered")]
    streams = [await store.streams.read(stream) for stream in ("news", "olds")]
    stats = [
        (queue.name, queue.paused, queue.total_enqueued, queue.total_ended) for queue in await store.queues.stats()
    ]
    return jobs, counts, records, streams, stats, await store.fleet.workers()


@pytest.mark.parametrize(("kind", "how"), KINDS, ids=[f"{kind}: {how}" for kind, how in KINDS])
@pytest.mark.parametrize("name", VERBS)
async def test_a_call_that_is_broken_at_any_write_has_written_nothing_and_can_be_made_again(
    kind, url, store, clock, name, how
):
    prepared = await scene(store, clock)
    async with breaking(kind, url, store, how) as breaks:
        before = await everything(store)
        for at in count(1, STRIDE if kind == "postgres" else 1):
            await breaks.arm(at)
            [outcome] = await asyncio.gather(VERBS[name](store, prepared), return_exceptions=True)
            if await breaks.writes() < at:
                break
            await breaks.disarm()
            assert isinstance(outcome, StoreFull if how == "full disk" else StoreError)
            assert await everything(store) == before, f"broken at write {at}"
        await breaks.disarm()
        assert at > 1, "it writes nothing"
        await check(store)
        await VERBS[name](store, prepared)  # again, after a lost answer
        await check(store)


@pytest.mark.parametrize(("kind", "how"), KINDS, ids=[f"{kind}: {how}" for kind, how in KINDS])
async def test_a_transaction_that_is_broken_at_any_write_of_its_settlement_has_written_nothing(
    kind, url, store, clock, how
):
    await business.begin(store)
    prepared = await scene(store, clock)
    effects = (Enqueue(prepared.fresh), Publish("news", b"1"), Put("kind", "there", b"2"))

    async def attempt() -> Verdict:
        transaction = store.transaction(business.LONG)
        await transaction.execute(business.write(kind), 1, "one")
        try:
            return await transaction.settle(Settlement(prepared.held[1], Done(b"1"), effects))
        finally:
            await transaction.roll_back()

    async with breaking(kind, url, store, how) as breaks:
        before = await everything(store)
        for at in count(1, STRIDE if kind == "postgres" else 1):
            await breaks.arm(at)
            [outcome] = await asyncio.gather(attempt(), return_exceptions=True)
            if await breaks.writes() < at:
                break
            await breaks.disarm()
            assert isinstance(outcome, Exception)
            assert await everything(store) == before, f"broken at write {at}"
            assert await business.rows(store) == []
    assert (outcome, at > 1) == (Verdict.WRITTEN, True)
    assert await business.rows(store) == [1]
    await check(store)
    await business.done(store, f"drop table {business.TABLE}")
