"""What prune does beside removing ended jobs: it waits for those who watch, sweeps what is over, and forgets what is past."""

import pytest

from packhorse.model.effect import Put
from packhorse.model.job import Pruned, Retention, State, UniqueKey, Until
from packhorse.model.lease import Settlement
from packhorse.model.reason import DeadReason
from packhorse.model.worker import WorkerInfo
from tests.conformance.test_prune import NOTHING, ended
from tests.factories import (
    BROKEN,
    DAY,
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    Cancelled,
    Dead,
    Done,
    found,
    new,
    new_id,
    put_in,
    run,
    state,
    take,
)


@pytest.mark.parametrize("ending", [Done(b"1", NOTHING), Dead(DeadReason.FINAL, BROKEN, NOTHING), Cancelled(NOTHING)])
async def test_a_job_that_is_watched_when_it_ends_stays_for_ten_seconds_or_until_its_watch_is_over(
    store, clock, ending
):
    nobodys, brief, long = await put_in(store, new(), new(), new())
    await store.jobs.watch([brief], 5 * SECOND)
    await store.jobs.watch([long, new_id()], MINUTE)
    for _ in range(3):
        await run(store, ending)

    assert (await store.jobs.prune(10)).jobs == 1
    assert (await store.jobs.watch([long], MINUTE))[long] is not None
    assert await state(store, nobodys) is None
    clock.turn(5 * SECOND)
    assert (await store.jobs.prune(10)).jobs == 1
    assert await state(store, brief) is None
    clock.turn(5 * SECOND - 1)
    assert (await store.jobs.prune(10)).jobs == 0
    assert (await state(store, long)).ended
    clock.turn(1)
    assert (await store.jobs.prune(10)).jobs == 1


async def test_a_watch_that_was_over_at_the_end_keeps_nothing(store, clock):
    [job] = await put_in(store, new())
    await store.jobs.watch([job], MINUTE)
    clock.turn(HOUR)
    await run(store, Done(b"1", NOTHING))

    assert (await store.jobs.prune(10)).jobs == 1
    assert await state(store, job) is None


async def test_a_watch_can_be_renewed(store, clock):
    [job] = await put_in(store, new())
    for _ in range(3):
        assert await store.jobs.watch([job], MINUTE) == {}
        clock.turn(50 * SECOND)
        await store.jobs.prune(10)
    await run(store, Done(b"1", NOTHING))

    assert (await store.jobs.prune(10)).jobs == 0
    assert await state(store, job) is State.DONE


async def test_records_watches_workers_and_unique_windows_that_are_over_are_removed_and_counted_of_each_at_most_as_many_as_the_limit(
    store, clock
):
    now = clock.now()
    short, long = WorkerInfo(id=new_id(), name="short"), WorkerInfo(id=new_id(), name="long")
    await store.fleet.beat(short, MINUTE)
    await store.fleet.beat(long, DAY)
    await store.records.put([
        Put("kind", "short", b"1", expires=now + MINUTE), Put("kind", "long", b"1", expires=now + DAY),
        Put("kind", "ever", b"1"),
    ])  # fmt: skip
    await put_in(
        store, new(unique=UniqueKey("short", Until.WINDOW, MINUTE)), new(unique=UniqueKey("long", Until.WINDOW, DAY))
    )
    await store.jobs.watch([(await put_in(store, new()))[0]], MINUTE)
    clock.turn(HOUR)

    assert await store.jobs.prune(100) == Pruned(jobs=0, others=4, more=False)

    assert [worker.name for worker in await store.fleet.workers()] == ["long"]
    assert [record.key for record in (await store.records.find("kind")).items] == ["ever", "long"]
    receipts = await store.jobs.enqueue([new(unique=UniqueKey(key)) for key in ("short", "long")])
    assert [receipt.created for receipt in receipts] == [True, False]


async def test_more_says_that_something_may_be_left_that_is_beyond_its_keep_or_over(store, clock):
    await ended(store, clock, 3, Done(b"1", NOTHING))
    now = clock.now()
    for first in (0, 4):
        await store.records.put([Put("kind", str(n), b"1", expires=now + MINUTE) for n in range(first, first + 4)])
        await put_in(store, *(new(unique=UniqueKey(str(n), Until.WINDOW, MINUTE)) for n in range(first, first + 4)))
    clock.turn(HOUR)

    assert await store.jobs.prune(5) == Pruned(3, 5 + 5, more=True)
    assert await store.jobs.prune(5) == Pruned(0, 3 + 3, more=False)
    assert await store.jobs.prune(5) == Pruned(0, 0, more=False)
    clock.turn(HOUR)
    assert await store.jobs.prune(3) == Pruned(0, 3, more=True)  # what was remembered of the three jobs
    assert await store.jobs.prune(3) == Pruned(0, 0, more=False)


async def test_a_call_looks_at_no_more_than_five_hundred_different_keeps_and_the_next_one_at_the_next(store, clock):
    for first in range(0, 1200, 400):
        await put_in(store, *(new() for _ in range(400)))
        leases = await take(store, 400)
        await store.jobs.exchange([
            Settlement(lease, Done(keep=Retention(1, MINUTE + first + n))) for n, lease in enumerate(leases)
        ])  # fmt: skip
    clock.turn(HOUR)
    steps = []
    while not steps or steps[-1].more:
        steps.append(await store.jobs.prune(1000))

    assert sum(step.jobs for step in steps) == 1200
    assert 3 <= len(steps) <= 12
    assert max(step.jobs for step in steps) <= 900


async def test_a_keep_that_no_ended_job_has_any_more_is_forgotten_within_hours(store, clock):
    await ended(store, clock, 2, DEAD)
    for first in (0, 300):
        await put_in(store, *(new() for _ in range(300)))
        leases = await take(store, 300)
        await store.jobs.exchange([
            Settlement(lease, Done(keep=Retention(1, MINUTE + first + n))) for n, lease in enumerate(leases)
        ])  # fmt: skip
    for _ in range(3):
        clock.turn(DAY)
        while (await store.jobs.prune(1000)).more and len(await found(store)) > 2:
            pass
        await store.jobs.prune(1000)

    # Each call looks at all keeps there are: they are no longer more than five hundred.
    assert [await store.jobs.prune(100) for _ in range(2)] == 2 * [Pruned(0, 0, more=False)]
    await ended(store, clock, 1, Done(keep=Retention(1, MINUTE)))
    assert len(await found(store)) == 3


@pytest.mark.parametrize("gone", ["pruned", "dropped"])
async def test_a_queue_that_holds_no_job_any_more_and_is_not_paused_is_forgotten(store, clock, gone):
    for queue in ("past", "paused"):
        await put_in(store, new(queue=queue), new(queue=queue, delay=HOUR))
        await run(store, Done(b"1", NOTHING), queue=queue)
    await put_in(store, new(queue="live"))
    await store.queues.pause(["paused", "past"])
    await store.queues.resume(["past"])
    assert [queue.name for queue in await store.queues.stats()] == ["live", "past", "paused"]

    if gone == "pruned":
        clock.turn(2 * HOUR)
        for queue in ("past", "paused"):
            await store.queues.resume([queue])
            await run(store, Done(b"1", NOTHING), queue=queue)
        await store.queues.pause(["paused"])
        assert (await store.jobs.prune(100)).jobs == 4
    else:
        assert (await store.jobs.prune(100)).jobs == 2
        await store.jobs.drop([job.id for job in await found(store) if job.queue != "live"])

    assert [queue.name for queue in await store.queues.stats()] == ["live", "paused"]
    assert sorted(await store.jobs.count()) == ["live"]
    [job] = await put_in(store, new(queue="past"))
    assert (await store.jobs.count())["past"][State.READY] == 1
    assert [lease.id for lease in await take(store, 1, "past")] == [job]
