"""A log of writes that was cut anywhere, as a power cut leaves it: the store is what it was at some moment before."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.job import KEEP_DONE, Keep, State, Unique
from packhorse.model.lease import Lease, Settlement, Verdict
from packhorse.model.outcome import Again, Dead, Done, Outcome, Wait
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.stores.redis.store import RedisStore
from packhorse.testing.clock import TurnedClock
from tests import servers
from tests.conformance.invariants import check
from tests.integration.flowing import LONG
from tests.integration.keyspaces import KINDS, NONE, opened
from tests.making import BROKEN, HOUR, MINUTE, found, new, put_in, take

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

CUTS = 2500 if LONG else 30  # for each server
LOGGED = ("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes")


@pytest.fixture(params=KINDS)
def logged(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(str(request.param), *LOGGED) as server:
        yield server


def log_of(server: servers.Server) -> Path:
    """The file at whose end the server writes."""
    assert server.folder is not None
    [path] = [path for name in ("appendonly.aof", "appendonlydir/*.incr.aof") for path in server.folder.glob(name)]
    return path


async def work(store: RedisStore, clock: TurnedClock, chance: random.Random) -> list[Lease]:
    """Something of everything; the leases that are held in the end."""
    held: list[Lease] = []
    for number in range(20):
        parent = new(children=1)
        wishes = [new(), new(lane="a"), new(delay=MINUTE), new(unique=Unique(f"u{number % 5}")), parent]
        await put_in(store, *wishes, new(parent=parent.id, priority=number % 3))
        held += await take(store, 4)
        clock.turn(MINUTE // 4)
        chance.shuffle(held)
        ending, held = held[:3], held[3:]
        outcomes: list[Outcome] = [
            Done(b"1", Keep(20, HOUR)),
            Again(chance.choice((0, MINUTE)), BROKEN),
            Wait(WaitReason.UNROUTABLE),
        ]
        effects = (Enqueue(new(lane="b")), Publish("news", b"1"), Put("kind", f"k{number % 3}", b"1"))
        settlements = [Settlement(lease, chance.choice(outcomes), effects) for lease in ending]
        await store.jobs.exchange(settlements)
        await store.jobs.release(WaitReason.UNROUTABLE)
        if number % 5 == 4:
            await store.jobs.cancel([parent.id], keep=KEEP_DONE)
            await store.jobs.reap(5)
            await store.jobs.prune(50)
    return held


async def audit(url: str, held: list[Lease], clock: TurnedClock) -> None:
    """Each record has one place, a lease is settled at most once, and all that is left can be run."""
    async with opened(url, clock=clock) as store:
        await check(store)
        first = (await store.jobs.exchange([Settlement(lease, Done()) for lease in held])).verdicts
        again = (await store.jobs.exchange([Settlement(lease, Done()) for lease in held])).verdicts
        assert Verdict.WRITTEN not in again
        assert [v is Verdict.WRITTEN for v in first] == [
            v is Verdict.REPEATED and w is not v for v, w in zip(again, first, strict=True)
        ]
        clock.turn(HOUR)
        await store.jobs.reap(500)
        await store.jobs.release(WaitReason.UNROUTABLE)
        while leases := await take(store, 500):
            await store.jobs.exchange([Settlement(lease, Dead(DeadReason.FINAL, BROKEN)) for lease in leases])
        await check(store)
        states = Counter(job.state for job in await found(store, limit=1000))
        assert not states.keys() & {State.READY, State.RUNNING, State.SCHEDULED}, states


def test_a_log_cut_at_any_byte_gives_the_store_as_it_was_at_some_moment(logged):
    chance = random.Random(7)
    clock = TurnedClock()

    async def fill() -> list[Lease]:
        async with opened(logged.url, clock=clock) as store:
            laid.append(log_of(logged).stat().st_size)
            return await work(store, clock, chance)

    laid: list[int] = []
    held = asyncio.run(fill())
    logged.kill()
    log = log_of(logged)
    whole = log.read_bytes()
    for cut in sorted(chance.randrange(laid[0], len(whole)) for _ in range(CUTS)):
        log.write_bytes(whole[:cut])
        logged.restart()
        asyncio.run(audit(logged.url, held, TurnedClock(clock.now())))
        logged.kill()
