"""Queues as a whole: pausing, resuming, and how they stand."""

from packhorse.model.job import State
from packhorse.model.lease import Settlement
from tests.making import HOUR, MINUTE, SECOND, Done, ask, drain, laned, new, put_in, run, state, states, take


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
