"""Removing what has ended, and what is remembered of it."""

import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.ids import chosen_id
from packhorse.model.job import LEASE_US, REMEMBER_US, PrunedDead, Receipt, Retention, State
from packhorse.model.lease import Verdict
from packhorse.model.reason import DeadReason
from packhorse.model.record import DELIVERED
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
    changes,
    delivered,
    end,
    found,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

NOTHING = Retention(0, 0)


async def ended(store, clock, count: int, outcome, **options) -> list[bytes]:
    """So many jobs that have ended, a second after each other."""
    jobs = await put_in(store, *(new(**options) for _ in range(count)))
    for _ in jobs:
        clock.turn(SECOND)
        await run(store, outcome, queue=options.get("queue", "default"))
    return jobs


async def test_remove_records_and_results_of_ended_jobs_beyond_their_keep_oldest_first_at_most_as_many_as_the_limit(
    store, clock
):
    jobs = await ended(store, clock, 5, Done(b"1", NOTHING))

    assert (await store.jobs.prune(3)).jobs == 3

    assert await states(store, *jobs) == [None, None, None, State.DONE, State.DONE]
    assert (await store.jobs.prune(3)).jobs == 2
    assert (await store.jobs.prune(3)).jobs == 0
    assert await found(store) == []


async def test_of_the_ended_jobs_of_a_queue_with_the_same_end_and_the_same_keep_the_newest_stay_up_to_its_count_and_its_age(
    store, clock
):
    keep = Retention(2, HOUR)
    done = await ended(store, clock, 3, Done(keep=keep))
    dead = await ended(store, clock, 3, Dead(DeadReason.FINAL, BROKEN, keep))
    other = await ended(store, clock, 1, Done(keep=keep), queue="other")

    assert (await store.jobs.prune(100)).jobs == 2
    assert await states(store, *done, *dead, *other) == [
        None, State.DONE, State.DONE, None, State.DEAD, State.DEAD, State.DONE,
    ]  # fmt: skip
    clock.to((await one(store, done[1])).since + HOUR)

    assert (await store.jobs.prune(100)).jobs == 1
    assert await states(store, *done) == [None, None, State.DONE]


async def test_the_answer_counts_the_removed_dead_jobs_of_each_queue_and_has_the_moment_when_the_newest_of_them_died(
    store, clock
):
    dead = Dead(DeadReason.FINAL, BROKEN, NOTHING)
    await ended(store, clock, 3, dead)
    died = clock.now()
    await ended(store, clock, 2, Dead(DeadReason.FINAL, BROKEN, Retention(0, HOUR)), queue="other")
    newest = clock.now()
    await ended(store, clock, 2, Done(keep=NOTHING))
    await ended(store, clock, 1, Cancelled(NOTHING), queue="third")
    clock.turn(SECOND)

    removed = []
    while not removed or removed[-1].more:
        removed.append(await store.jobs.prune(100))

    assert [pruned.dead for pruned in removed] == [
        {"default": PrunedDead(3, died), "other": PrunedDead(2, newest)},
        *({} for _ in removed[1:]),
    ]


async def test_dead_jobs_that_are_removed_in_parts_are_counted_once(store, clock):
    await ended(store, clock, 5, Dead(DeadReason.FINAL, BROKEN, NOTHING))
    died = clock.now()

    parts = [(await store.jobs.prune(2)).dead for _ in range(4)]

    assert parts == [
        {"default": PrunedDead(2, died - 3 * SECOND)},
        {"default": PrunedDead(2, died - SECOND)},
        {"default": PrunedDead(1, died)},
        {},
    ]


async def test_each_keep_of_a_queue_is_a_shelf_of_its_own(store, clock):
    small = await ended(store, clock, 3, Done(keep=Retention(1, DAY)))
    large = await ended(store, clock, 3, Done(keep=Retention(2, DAY)))
    short = await ended(store, clock, 3, Done(keep=Retention(2, HOUR)))

    assert (await store.jobs.prune(100)).jobs == 4

    assert await states(store, *small) == [None, None, State.DONE]
    assert await states(store, *large) == [None, State.DONE, State.DONE]
    assert await states(store, *short) == [None, State.DONE, State.DONE]
    clock.turn(2 * HOUR)
    assert (await store.jobs.prune(100)).jobs == 2
    assert await states(store, *short) == [None, None, None]


async def test_each_end_is_a_shelf_of_its_own(store, clock):
    keep = Retention(1, DAY)
    done = await ended(store, clock, 2, Done(keep=keep))
    off = await ended(store, clock, 2, Cancelled(keep))

    assert (await store.jobs.prune(100)).jobs == 2

    assert await states(store, *done, *off) == [None, State.DONE, None, State.CANCELLED]


async def test_jobs_that_have_not_ended_are_never_pruned(store, clock):
    jobs = await put_in(store, new(), new(), new(delay=30 * DAY), new(children=1))
    await take(store, 1)
    clock.turn(20 * DAY)

    assert (await store.jobs.prune(100)).jobs == 0
    assert None not in await states(store, *jobs)


async def test_a_job_is_pruned_the_moment_its_age_is_reached(store, clock):
    [job] = await ended(store, clock, 1, Done(keep=Retention(10, MINUTE)))
    clock.turn(MINUTE - 1)
    assert (await store.jobs.prune(10)).jobs == 0
    clock.turn(1)

    assert (await store.jobs.prune(10)).jobs == 1
    assert await state(store, job) is None


async def test_nothing_of_a_pruned_job_stays_to_be_seen(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.note([(lease, b"1")])
    await end(store, lease, Dead(DeadReason.FINAL, BROKEN, NOTHING))

    await store.jobs.prune(10)

    assert await state(store, job) is None
    assert await found(store) == []
    assert await store.jobs.cancel([job]) == [None]
    assert await store.jobs.replay([job]) == [False]
    assert await store.jobs.drop([job]) == [False]
    assert await store.jobs.watch([job], MINUTE) == {job: None}


async def test_a_replayed_job_is_off_its_shelf(store, clock):
    jobs = await ended(store, clock, 2, Dead(DeadReason.FINAL, BROKEN, NOTHING))
    await store.jobs.replay(jobs[:1])

    assert (await store.jobs.prune(10)).jobs == 1
    assert await states(store, *jobs) == [State.READY, None]


async def test_a_dropped_job_is_off_its_shelf(store, clock):
    jobs = await ended(store, clock, 4, Done(keep=Retention(2, DAY)))
    await store.jobs.drop(jobs[2:])

    assert (await store.jobs.prune(10)).jobs == 0
    assert await states(store, *jobs[:2]) == [State.DONE, State.DONE]


async def test_a_pruned_chosen_id_is_remembered_for_seven_days_and_any_other_for_ten_leases(store, clock):
    words, plain = chosen_id("packhorse", "invoice:42"), new_id()
    await put_in(store, new(id=words), new(id=plain))
    for _ in range(2):
        await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    async def again() -> list[bool]:
        await store.jobs.prune(10)
        return [receipt.created for receipt in await store.jobs.enqueue([new(id=words), new(id=plain)])]

    clock.turn(10 * LEASE_US - SECOND)
    assert await again() == [False, False]
    clock.turn(2 * SECOND)
    assert await again() == [False, True]
    clock.turn(REMEMBER_US - 10 * LEASE_US - 2 * SECOND)
    assert await again() == [False, False]
    clock.turn(2 * SECOND)
    assert await again() == [True, False]


async def test_a_remembered_id_gives_itself_and_creates_nothing(store):
    [job] = await put_in(store, new())
    await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    assert await store.jobs.enqueue([new(id=job)]) == [Receipt(job, False)]
    assert await state(store, job) is None


async def test_an_effect_with_a_remembered_id_creates_nothing(store):
    [job, _] = await put_in(store, new(), new())
    await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    await run(store, Done(), Enqueue(new(id=job)))

    assert await state(store, job) is None


async def test_the_id_of_a_pruned_job_is_free_once_it_was_dropped(store):
    [job] = await put_in(store, new())
    await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    assert await store.jobs.drop([job]) == [False]

    assert await store.jobs.enqueue([new(id=job)]) == [Receipt(job, True)]


async def test_a_settlement_repeated_after_its_job_was_pruned_comes_back_as_repeated(store):
    await put_in(store, new())
    lease = await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    assert await end(store, lease, Done(keep=NOTHING)) is Verdict.REPEATED


async def test_a_settlement_of_a_pruned_job_with_another_token_is_lost(store, clock):
    await put_in(store, new())
    [stale] = await take(store)
    clock.to(stale.until + 1)
    await store.jobs.reap(10)
    await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)

    assert await end(store, stale, Done()) is Verdict.LOST


async def test_a_settlement_repeated_after_its_job_was_forgotten_is_lost(store, clock):
    await put_in(store, new())
    lease = await run(store, Done(keep=NOTHING))
    await store.jobs.prune(10)
    clock.turn(11 * LEASE_US)
    await store.jobs.prune(10)

    assert await end(store, lease, Done()) is Verdict.LOST


async def test_what_was_delivered_to_a_pruned_parent_goes_with_it(store):
    parent = new(children=1)
    child = new(parent=parent.id)
    await store.jobs.enqueue([parent, child])
    await run(store, Done(b"1"))
    await run(store, Done(keep=NOTHING))
    assert await delivered(store, parent.id, child.id) == b"done 1"

    assert (await store.jobs.prune(10)).jobs == 1

    assert (await store.records.find(DELIVERED)).items == ()
    assert await state(store, child.id) is State.DONE


async def test_what_a_pruned_child_delivered_stays_for_its_parent(store):
    parent = new(children=2)
    child = new(parent=parent.id)
    await store.jobs.enqueue([parent, child])
    await run(store, Done(b"1", NOTHING))

    assert (await store.jobs.prune(10)).jobs == 1

    assert await delivered(store, parent.id, child.id) == b"done 1"
    assert (await one(store, parent.id)).delivered == 1


async def test_prune_and_drop_say_nothing_to_the_lifecycle(store):
    await put_in(store, new(), new())
    await run(store, Done(keep=NOTHING))
    before = await changes(store)

    await store.jobs.prune(10)
    await store.jobs.drop([job.id for job in await found(store)])

    assert await changes(store) == before


async def test_what_is_kept_can_be_pruned_in_many_small_steps(store, clock):
    jobs = await put_in(store, *(new() for _ in range(60)))
    for _ in jobs:
        await run(store, Done(keep=Retention(7, DAY)))

    steps = [(await store.jobs.prune(10)).jobs for _ in range(7)]

    assert steps == [10, 10, 10, 10, 10, 3, 0]
    assert await states(store, *jobs) == [None] * 53 + [State.DONE] * 7


@pytest.mark.parametrize("outcome", [Done(), DEAD, Cancelled()])
async def test_ends_are_kept_a_day_at_least_unless_set_otherwise(store, clock, outcome):
    [job] = await ended(store, clock, 1, outcome)
    clock.turn(DAY - 1)

    assert (await store.jobs.prune(10)).jobs == 0
    assert (await state(store, job)).ended
