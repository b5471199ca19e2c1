"""Keys that at most one job may hold."""

import msgspec
import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import Receipt, Retention, State, UniqueKey, Until
from packhorse.model.lease import Verdict
from packhorse.model.reason import WaitReason
from tests.factories import (
    DEAD,
    HOUR,
    SECOND,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    end,
    found,
    laned,
    lose,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

FINISHED = UniqueKey("k")
STARTED = UniqueKey("k", Until.STARTED)
WINDOW = UniqueKey("k", Until.WINDOW, HOUR)


async def free(store, key: str = "k") -> bool:
    """Whether a key can be taken; the job that tried is dropped."""
    probe = new("probe", unique=UniqueKey(key), delay=HOUR)
    [receipt] = await store.jobs.enqueue([probe])
    await store.jobs.drop([probe.id])
    return receipt.created


async def test_a_unique_key_that_is_taken_gives_its_holder_and_creates_nothing(store):
    [holder] = await put_in(store, new("first", unique=FINISHED))

    receipts = await store.jobs.enqueue([new("twin", unique=FINISHED), new("twin", queue="other", unique=FINISHED)])

    assert receipts == [Receipt(holder, False)] * 2
    assert [job.task for job in await found(store)] == ["first"]


async def test_the_same_key_twice_in_one_call_creates_one_job(store):
    first = new(unique=FINISHED)

    receipts = await store.jobs.enqueue([first, new(unique=FINISHED)])

    assert receipts == [Receipt(first.id, True), Receipt(first.id, False)]
    assert len(await found(store)) == 1


async def test_a_unique_window_starts_with_the_first_job_is_not_extended_by_duplicates_and_outlives_the_job(
    store, clock
):
    [holder] = await put_in(store, new(unique=WINDOW))
    await run(store, Done())
    clock.turn(HOUR - SECOND)
    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]

    clock.turn(2 * SECOND)

    assert (await store.jobs.enqueue([new(unique=WINDOW)]))[0].created


@pytest.mark.parametrize("verb", ["cancel", "drop", "prune"])
async def test_a_unique_window_outlives_every_end_of_its_job(store, verb):
    [holder] = await put_in(store, new(unique=WINDOW))
    if verb == "prune":
        await run(store, Done(keep=Retention(0, 0)))
        assert (await store.jobs.prune(10)).jobs == 1
    else:
        await getattr(store.jobs, verb)([holder])

    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]


async def test_a_unique_window_outlives_the_start_of_its_job(store):
    [holder] = await put_in(store, new(unique=WINDOW))
    await take(store)

    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]


async def test_a_window_taken_anew_lasts_its_own_time(store, clock):
    await put_in(store, new(unique=WINDOW))
    clock.turn(HOUR + 1)
    [holder] = await put_in(store, new(unique=WINDOW))
    clock.turn(HOUR - 1)

    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]


async def test_a_window_that_is_over_can_be_taken_by_any_scope(store, clock):
    await put_in(store, new(unique=WINDOW))
    clock.turn(HOUR + 1)
    [holder] = await put_in(store, new(unique=FINISHED))
    clock.turn(10 * HOUR)

    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]


async def test_the_end_of_a_job_whose_window_is_over_leaves_the_next_holder_its_key(store, clock):
    await put_in(store, new(unique=WINDOW))
    [lease] = await take(store)
    clock.turn(HOUR + 1)
    [holder] = await put_in(store, new(unique=FINISHED))

    await store.jobs.drop([lease.id])

    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]


async def test_a_key_unique_until_started_is_free_once_the_job_was_leased(store):
    [holder] = await put_in(store, new(unique=STARTED))
    assert await store.jobs.enqueue([new(unique=STARTED)]) == [Receipt(holder, False)]

    await take(store)

    assert (await store.jobs.enqueue([new(unique=STARTED)]))[0].created


async def test_a_retry_does_not_take_the_key_of_a_started_job_again(store):
    await put_in(store, new(unique=STARTED))

    await run(store, Again(delay=HOUR))

    assert await free(store)


async def test_the_end_of_a_started_job_leaves_the_next_holder_its_key(store):
    await put_in(store, new("first", unique=STARTED))
    [first] = await take(store)
    [holder] = await put_in(store, new("second", unique=STARTED))

    await store.jobs.drop([first.id])

    assert await store.jobs.enqueue([new(unique=STARTED)]) == [Receipt(holder, False)]


@pytest.mark.parametrize("verb", ["cancel", "drop"])
async def test_a_key_unique_until_started_is_free_once_the_job_is_gone_without_a_start(store, verb):
    [holder] = await put_in(store, new(unique=STARTED))

    await getattr(store.jobs, verb)([holder])

    assert await free(store)


async def test_a_key_unique_until_finished_is_free_once_the_job_has_ended(store):
    [holder] = await put_in(store, new(unique=FINISHED))
    [lease] = await take(store)
    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]

    await end(store, lease, Done())

    assert (await store.jobs.enqueue([new(unique=FINISHED)]))[0].created


@pytest.mark.parametrize("outcome", [Done(), DEAD, Cancelled()])
async def test_every_end_by_settlement_frees_the_key(store, outcome):
    await put_in(store, new(unique=FINISHED))

    await run(store, outcome)

    assert await free(store)


@pytest.mark.parametrize("outcome", [Again(), Again(delay=HOUR), Wait(WaitReason.INTERVENTION), Held(1)])
async def test_what_is_no_end_keeps_the_key(store, outcome):
    [holder] = await put_in(store, new(unique=FINISHED))

    await run(store, outcome)

    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]


async def test_a_job_taken_back_keeps_its_key_and_a_poisoned_one_frees_it(store, clock):
    [holder] = await put_in(store, new(unique=FINISHED))
    await lose(store, clock)
    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]

    await lose(store, clock, 1, max_lost=2)

    assert await state(store, holder) is State.DEAD
    assert await free(store)


@pytest.mark.parametrize("new_job", [new(delay=HOUR), new(children=1), new()])
async def test_a_key_is_held_in_every_state_before_the_end(store, new_job):
    new_job = msgspec.structs.replace(new_job, id=new_id(), unique=FINISHED)
    await store.jobs.enqueue([new_job])

    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(new_job.id, False)]


async def test_a_job_behind_its_lane_holds_its_key(store):
    [_, holder] = await put_in(store, laned(), laned(unique=FINISHED))

    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]


async def test_a_duplicate_of_a_laned_job_takes_no_slot(store):
    await put_in(store, laned("b", unique=FINISHED))
    await store.jobs.enqueue([laned("a", unique=FINISHED)])

    [newcomer] = await put_in(store, laned("a"))

    assert await state(store, newcomer) is State.READY


async def test_scopes_share_one_space_of_keys(store):
    [holder] = await put_in(store, new(unique=FINISHED))

    receipts = await store.jobs.enqueue([new(unique=STARTED), new(unique=WINDOW)])

    assert receipts == [Receipt(holder, False)] * 2


async def test_other_keys_are_free(store):
    receipts = await store.jobs.enqueue([new(unique=UniqueKey(key)) for key in ("k", "K", "k ", "kk", "k:1")])

    assert all(receipt.created for receipt in receipts)


async def test_an_effect_respects_a_taken_key(store):
    [holder] = await put_in(store, new(unique=FINISHED, priority=99))
    await put_in(store, new())
    twin = new(unique=FINISHED)

    await run(store, Done(), Enqueue(twin))

    assert await states(store, holder, twin.id) == [State.READY, None]


async def test_an_effect_takes_its_key(store):
    await put_in(store, new())
    follower = new(unique=FINISHED)
    await run(store, Done(), Enqueue(follower))

    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(follower.id, False)]


async def test_a_job_shows_its_key_also_after_its_end(store):
    [job] = await put_in(store, new(unique=FINISHED))
    assert (await one(store, job)).unique == "k"

    await run(store, Done())

    assert (await one(store, job)).unique == "k"


async def test_a_job_whose_unique_key_was_taken_meanwhile_stays_as_it_is(store):
    [dead] = await put_in(store, new(unique=FINISHED))
    await run(store, DEAD)
    [holder] = await put_in(store, new(unique=FINISHED))

    assert await store.jobs.replay([dead]) == [False]

    assert await states(store, dead, holder) == [State.DEAD, State.READY]
    assert await store.jobs.enqueue([new(unique=FINISHED)]) == [Receipt(holder, False)]


@pytest.mark.parametrize("unique", [FINISHED, STARTED])
async def test_a_replayed_job_takes_its_key_again(store, unique):
    [dead] = await put_in(store, new(unique=unique))
    await run(store, DEAD)

    assert await store.jobs.replay([dead]) == [True]

    assert await store.jobs.enqueue([new(unique=unique)]) == [Receipt(dead, False)]


async def test_a_replayed_job_frees_its_key_at_its_end_again(store):
    [dead] = await put_in(store, new(unique=FINISHED))
    await run(store, DEAD)
    await store.jobs.replay([dead])

    await run(store, Done())

    assert await free(store)


async def test_a_replayed_job_unique_until_started_frees_its_key_when_leased_again(store):
    [dead] = await put_in(store, new(unique=STARTED))
    await run(store, DEAD)
    await store.jobs.replay([dead])

    await take(store)

    assert await free(store)


async def test_a_job_with_a_window_is_replayed_whoever_holds_the_key(store, clock):
    [dead] = await put_in(store, new(unique=WINDOW))
    await run(store, DEAD)
    clock.turn(HOUR + 1)
    [holder] = await put_in(store, new(unique=WINDOW))

    assert await store.jobs.replay([dead]) == [True]

    assert await store.jobs.enqueue([new(unique=WINDOW)]) == [Receipt(holder, False)]


async def test_of_two_dead_jobs_with_one_key_only_the_first_is_replayed(store):
    jobs = []
    for _ in range(2):
        jobs += await put_in(store, new(unique=FINISHED))
        await run(store, DEAD)

    assert await store.jobs.replay(jobs) == [True, False]


async def test_a_job_that_ends_may_enqueue_its_successor_under_the_same_unique_key(store):
    first, successor = new(unique=UniqueKey("k")), new(unique=UniqueKey("k"))
    await store.jobs.enqueue([first])
    [lease] = await take(store)

    assert await end(store, lease, Done(), Enqueue(successor)) is Verdict.WRITTEN
    assert await state(store, successor.id) is State.READY
