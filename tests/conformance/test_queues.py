"""Queues as a whole: pausing, resuming, and how they stand."""

import pytest

from packhorse.model.job import Retention, State
from packhorse.model.lease import Settlement
from tests.conformance.invariants import plain
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    Cancelled,
    Done,
    ask,
    drain,
    found,
    laned,
    new,
    new_id,
    put_in,
    run,
    state,
    states,
    take,
)


async def glance(store) -> dict[str, tuple[bool, int | None, int | None]]:
    """Paused, oldest ready and next due of each queue."""
    return {queue.name: (queue.paused, queue.oldest_ready, queue.next_due) for queue in await store.queues.stats()}


async def test_a_paused_queue_takes_jobs_and_gives_none(store, clock):
    await store.queues.pause(["default"])
    ready, later, _ = jobs = await put_in(store, new(), new(delay=MINUTE), laned())
    assert await states(store, *jobs) == [State.READY, State.SCHEDULED, State.READY]
    clock.turn(HOUR)

    assert await take(store) == []
    assert await state(store, ready) is State.READY
    assert not (await state(store, later)).ended


async def test_a_resumed_queue_gives_jobs_again(store, clock):
    await store.queues.pause(["default", "other"])
    jobs = await put_in(store, new(), new(), new(delay=MINUTE))
    clock.turn(HOUR)
    assert await take(store, 10, "default", "other") == []

    await store.queues.resume(["default"])

    assert [lease.id for lease in await take(store)] == jobs


async def test_pausing_and_resuming_twice_is_harmless(store):
    [job] = await put_in(store, new())
    await store.queues.pause(["default"])
    await store.queues.pause(["default"])
    assert await take(store) == []

    await store.queues.resume(["default"])
    await store.queues.resume(["default", "unknown"])

    assert [lease.id for lease in await take(store)] == [job]


async def test_pausing_one_queue_leaves_the_others_alone(store):
    await put_in(store, new(queue="a"), new(queue="ab"))
    await store.queues.pause(["a"])

    assert [lease.queue for lease in await take(store, 5, "a", "ab")] == ["ab"]


async def test_a_pause_holds_for_every_worker(store, second):
    await put_in(store, new())

    await second.queues.pause(["default"])

    assert await take(store) == []


async def test_pausing_nothing_is_no_trouble(store):
    await store.queues.pause([])
    await store.queues.resume([])

    assert await store.queues.stats() == []


async def test_a_paused_queue_hands_on_slots_of_its_lanes(store):
    jobs = await put_in(store, laned(), laned())
    [lease] = await take(store)
    await store.queues.pause(["default"])

    answer = await store.jobs.exchange([Settlement(lease, Done())], ask())

    assert answer.leases == ()
    assert await states(store, *jobs) == [State.DONE, State.READY]


async def test_answer_every_queue_by_name_with_its_counts_whether_it_is_paused_its_oldest_ready_and_its_next_due_moment(
    store, clock
):
    start = clock.now()
    await put_in(store, new(queue="b", priority=9), new(queue="a", delay=HOUR), new(queue="a", delay=MINUTE))
    clock.turn(SECOND)
    await put_in(store, new(queue="b", priority=0), new(queue="c"))
    await run(store, Done(), queue="c")
    await store.queues.pause(["b", "empty"])

    stats = await store.queues.stats()

    assert [queue.name for queue in stats] == ["a", "b", "c", "empty"]
    counts = [{state: count for state, count in queue.counts.items() if count} for queue in stats]
    assert counts == [{State.SCHEDULED: 2}, {State.READY: 2}, {State.DONE: 1}, {}]
    assert await glance(store) == {
        "a": (False, None, start + MINUTE), "b": (True, start, None), "c": (False, None, None),
        "empty": (True, None, None),
    }  # fmt: skip


async def test_the_oldest_ready_moves_on_with_the_work(store, clock):
    await put_in(store, new())
    clock.turn(SECOND)
    await put_in(store, new())
    assert await glance(store) == {"default": (False, clock.now() - SECOND, None)}

    await take(store, 1)

    assert await glance(store) == {"default": (False, clock.now(), None)}


async def test_the_next_due_moment_moves_on_with_the_work(store, clock):
    jobs = await put_in(store, new(delay=MINUTE), new(delay=HOUR))
    start = clock.now()

    await store.jobs.cancel(jobs[:1])

    assert await glance(store) == {"default": (False, None, start + HOUR)}


async def test_counts_of_stats_are_those_of_count(store):
    await put_in(store, new(), new(delay=HOUR), laned(), laned(), new(queue="other", children=1))
    await run(store, Done())

    counts = await store.jobs.count()

    for queue in await store.queues.stats():
        assert {state: count for state, count in queue.counts.items() if count} == {
            state: count for state, count in counts[queue.name].items() if count
        }


async def test_a_queue_whose_jobs_have_all_gone_runs_anew(store):
    [job] = await put_in(store, new())
    await store.jobs.drop([job])

    [other] = await put_in(store, new())

    assert await drain(store) == [other]


async def totals(store, queue: str = "default") -> tuple[int, dict[State, int]]:
    """How many jobs of a queue were ever enqueued, and ever ended by state, without zeros."""
    [stats] = [stats for stats in await store.queues.stats() if stats.name == queue]
    return stats.total_enqueued, {state: count for state, count in stats.total_ended.items() if count}


async def test_totals_say_how_many_jobs_of_a_queue_were_ever_enqueued_and_how_many_ever_ended_in_each_state(store):
    later, *_ = await put_in(store, new(delay=HOUR), new(), new(), new(), laned(), laned(), new(children=1))
    await put_in(store, new(queue="other"))
    assert await totals(store) == (7, {})

    for outcome in (Done(), Done(), DEAD):
        await run(store, outcome)
    await store.jobs.cancel([later])

    assert await totals(store) == (7, {State.DONE: 2, State.DEAD: 1, State.CANCELLED: 1})
    assert await totals(store, "other") == (1, {})


async def test_jobs_that_were_pruned_dropped_or_replayed_stay_in_the_totals(store, clock):
    nothing = Retention(0, 0)
    await put_in(store, *(new() for _ in range(6)))
    await put_in(store, new(delay=HOUR), laned(), laned(), new(children=1))
    ended = [await run(store, outcome) for outcome in (Done(keep=nothing), DEAD, DEAD, Cancelled(), Done())]
    before = (10, {State.DONE: 2, State.DEAD: 2, State.CANCELLED: 1})
    assert await totals(store) == before

    assert (await store.jobs.prune(10)).jobs == 1
    assert await totals(store) == before
    replayed, dropped, cancelled, done = (lease.id for lease in ended[1:])
    assert await store.jobs.replay([replayed, cancelled, replayed, done]) == [True, True, False, False]
    assert await totals(store) == before
    assert await store.jobs.drop([dropped, dropped, new_id()]) == [True, False, False]
    await store.jobs.drop([job.id for job in await found(store) if job.state is not State.DONE])

    assert await totals(store) == before
    assert plain(await store.jobs.count()) == {("default", State.DONE): 1}


@pytest.mark.parametrize("verb", ["replay", "drop", "prune", "cancel", "enqueue"])
async def test_a_verb_repeated_after_a_lost_answer_adds_nothing_to_the_totals(store, verb):
    jobs = [new() for _ in range(4)]
    await put_in(store, *jobs)
    leases = [await run(store, outcome) for outcome in (DEAD, Cancelled(), Done(keep=Retention(0, 0)))]
    ids = [leases[0].id, leases[1].id]

    async def call() -> None:
        if verb == "prune":
            await store.jobs.prune(10)
        else:
            await getattr(store.jobs, verb)(jobs if verb == "enqueue" else ids)

    await call()
    once = await totals(store)
    await call()

    assert once == await totals(store) == (4, {State.DEAD: 1, State.CANCELLED: 1, State.DONE: 1})


async def test_a_job_that_dies_again_is_another_death_and_no_other_job(store):
    await put_in(store, new(), new(queue="other"))
    for _ in range(3):
        lease = await run(store, DEAD)
        assert await store.jobs.replay([lease.id]) == [True]
    await run(store, Done())

    assert await totals(store) == (1, {State.DEAD: 3, State.DONE: 1})


async def test_a_queue_that_was_forgotten_goes_on_with_its_totals_when_it_holds_jobs_again(store, second):
    await put_in(store, new(), new())
    for outcome in (Done(keep=Retention(0, 0)), DEAD):
        lease = await run(store, outcome)
    await store.jobs.drop([lease.id])
    await second.jobs.prune(10)
    assert await store.queues.stats() == []

    await put_in(store, new())

    assert await totals(second) == (3, {State.DONE: 1, State.DEAD: 1})


async def test_totals_stand_however_many_calls_have_removed_jobs(store):
    for number in range(130):
        [job] = await put_in(store, new())
        if number % 2:
            await run(store, DEAD)
        await store.jobs.drop([job])
        await store.jobs.prune(10)
    await put_in(store, new())
    assert await totals(store) == (131, {State.DEAD: 65})
