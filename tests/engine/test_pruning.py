"""How a worker prunes: many at once while it is full, small bites while it waits for jobs."""

import pytest

from packhorse.engine.caretaker import BATCH, BITE, Duty, duties
from packhorse.model.job import Keep, State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
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


def pruning(store: Store, *, full: bool) -> Duty:
    common = duties(store, lambda: None, lease=30 * SECOND, max_lost=3, full=lambda: full, telemetry=Telemetry())
    return next(duty for duty in common if duty.name == "prune")


@pytest.mark.parametrize(("full", "bite"), [(True, BATCH), (False, BITE)])
async def test_a_worker_that_waits_for_jobs_prunes_in_small_bites(memory, full, bite):
    await ended(memory)

    assert await pruning(memory, full=full).run()  # there is more

    assert await kept(memory) == ENDED - bite


@pytest.mark.parametrize("full", [True, False])
async def test_a_bite_that_finds_too_little_is_the_last(memory, full):
    await ended(memory)
    while await memory.jobs.prune(BATCH):
        pass

    assert not await pruning(memory, full=full).run()
