"""How a worker prunes: many at once while it settles many, small bites while jobs come one by one."""

from packhorse.engine.caretaker import MAX_BATCH, PRUNE_MIN_BATCH, Duty, duties
from packhorse.model.effect import Put
from packhorse.model.job import Pruned, Retention, State
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from tests.factories import SECOND, new, put_in, take

ENDED = 2 * MAX_BATCH


async def ended(store: Store) -> None:
    """Put in jobs that have ended and need not be kept."""
    for _ in range(ENDED // MAX_BATCH):
        await put_in(store, *(new() for _ in range(MAX_BATCH)))
        leases = await take(store, MAX_BATCH)
        await store.jobs.exchange([Settlement(lease, Done(None, Retention(0, 0))) for lease in leases])


async def kept(store: Store) -> int:
    return (await store.jobs.count())["default"][State.DONE]


def pruning(store: Store, *counts: int) -> Duty:
    """The duty of a worker that has settled so many jobs when it is asked, each time."""
    reported = iter(counts)
    common = duties(
        store, lambda: None, lease=30 * SECOND, max_lost=3, ended=lambda: next(reported), telemetry=Telemetry()
    )
    return next(duty for duty in common if duty.name == "prune")


async def test_a_worker_prunes_twice_as_many_as_it_has_settled_since(memory):
    await ended(memory)
    duty, before, bites = pruning(memory, 0, 5, 105, 110, 10_000), ENDED, []
    for _ in range(5):
        assert await duty.run()  # there is more
        left = await kept(memory)
        bites.append(before - left)
        before = left

    assert bites == [PRUNE_MIN_BATCH, PRUNE_MIN_BATCH, 200, PRUNE_MIN_BATCH, MAX_BATCH]


async def test_a_bite_that_finds_too_little_is_the_last(memory):
    await ended(memory)
    while (await memory.jobs.prune(MAX_BATCH)).more:
        pass

    assert not await pruning(memory, 1000).run()


async def test_entries_that_are_over_are_swept_in_growing_bites_although_no_job_ends(memory):
    many = 4 * MAX_BATCH
    for first in range(0, many, MAX_BATCH):
        await memory.records.put([Put("pieces", str(n), b"1", expires=1) for n in range(first, first + MAX_BATCH)])
    duty, times = pruning(memory, *[0] * 50), 1
    while await duty.run():
        times += 1

    assert times < 12
    assert await memory.jobs.prune(MAX_BATCH) == Pruned(0, 0, more=False)
