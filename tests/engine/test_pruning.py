"""How a worker prunes: many at once while it is full, small bites while it waits for jobs."""

import asyncio

from packhorse.engine.caretaker import BATCH, BITES, SOON, Duty, duties
from packhorse.model.job import Keep, State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from packhorse.testing.clock import TurnedClock
from tests.making import SECOND, new, put_in, take

ENDED = 2 * BATCH


async def ended(store: Store) -> None:
    """Put in jobs that have ended and need not be kept."""
    for _ in range(ENDED // BATCH):
        await put_in(store, *(new() for _ in range(BATCH)))
        leases = await take(store, BATCH)
        await store.jobs.exchange([Settlement(lease, Done(None, Keep(0, 0))) for lease in leases])


async def kept(store: Store) -> int:
    return (await store.jobs.count())["default"][State.DONE]


def pruning(store: Store, clock: TurnedClock, *, full: bool) -> Duty:
    common = duties(
        store, lambda: None, lease=30 * SECOND, max_lost=3, full=lambda: full, clock=clock, telemetry=Telemetry()
    )
    return next(duty for duty in common if duty.name == "prune")


async def turn(clock: TurnedClock, duration: int) -> None:
    clock.turn(duration)
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_worker_that_waits_for_jobs_prunes_in_small_bites(memory):
    await ended(memory)
    clock = TurnedClock()
    running = asyncio.ensure_future(pruning(memory, clock, full=False).run())

    await turn(clock, 0)
    assert await kept(memory) == ENDED - BATCH // BITES
    await turn(clock, SOON // BITES)
    assert await kept(memory) == ENDED - 2 * BATCH // BITES

    while not running.done():
        await turn(clock, SOON // BITES)
    assert running.result()  # there is more
    assert await kept(memory) == ENDED - BATCH


async def test_a_worker_that_is_full_prunes_many_at_once(memory):
    await ended(memory)
    clock = TurnedClock()
    running = asyncio.ensure_future(pruning(memory, clock, full=True).run())

    await turn(clock, 0)

    assert await kept(memory) == ENDED - BATCH
    await turn(clock, SOON)
    assert await running


async def test_a_bite_that_finds_too_little_is_the_last(memory):
    await ended(memory)
    while await memory.jobs.prune(BATCH):
        pass

    assert not await pruning(memory, TurnedClock(), full=False).run()
