"""Leasing jobs: order, shares, attempts and what is left behind."""

import asyncio

import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import LEASE_US, State
from packhorse.model.lease import ClaimRequest, Settlement, Share, Verdict
from packhorse.model.page import Filter
from tests.factories import (
    HOUR,
    MINUTE,
    OTHER,
    SECOND,
    WORKER,
    Again,
    Done,
    ask,
    end,
    new,
    new_id,
    one,
    put_in,
    run,
    state,
    take,
)


def asked(*shares: tuple[str, int, int | None]) -> ClaimRequest:
    """An ask with a share and a most for each queue."""
    return ClaimRequest(WORKER, tuple(Share(queue, count, most) for queue, count, most in shares))


async def spread(store, **queues: int) -> None:
    """So many jobs in each queue."""
    await put_in(store, *(new(queue=queue) for queue, count in queues.items() for _ in range(count)))


def by_queue(leases) -> dict[str, int]:
    """How many leases of each queue."""
    return {queue: sum(lease.queue == queue for lease in leases) for queue in {lease.queue for lease in leases}}


async def test_work_that_a_settlement_made_ready_is_leased_in_the_same_call(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    follower = new("follower")

    answer = await store.jobs.exchange([Settlement(lease, Again(), (Enqueue(follower),))], ask())

    assert {lease.id for lease in answer.leases} == {job, follower.id}


async def test_leases_come_best_first_by_priority_then_by_the_moment_of_becoming_ready_then_by_arrival(store, clock):
    first = await put_in(store, new(priority=5), new(priority=0), new(priority=5))
    clock.turn(SECOND)
    second = await put_in(store, new(priority=5), new(priority=0), new(priority=8191))
    clock.turn(SECOND)

    leases = await take(store)

    order = [first[1], second[1], first[0], first[2], second[0], second[2]]
    assert [lease.id for lease in leases] == order


async def test_a_scheduled_job_takes_its_place_by_its_due_moment(store, clock):
    [later] = await put_in(store, new(delay=3 * SECOND))
    [sooner] = await put_in(store, new(delay=SECOND))
    clock.turn(2 * SECOND)
    [between] = await put_in(store, new())
    clock.turn(2 * SECOND)
    [last] = await put_in(store, new())

    leases = await take(store)

    assert [lease.id for lease in leases] == [sooner, between, later, last]


async def test_a_better_priority_overtakes_what_was_due_before(store, clock):
    [due] = await put_in(store, new(delay=SECOND, priority=10))
    clock.turn(MINUTE)
    [best] = await put_in(store, new(priority=1))

    assert [lease.id for lease in await take(store)] == [best, due]


async def test_a_retry_at_once_stands_behind_those_who_were_ready_before(store, clock):
    [first, second] = await put_in(store, new(), new())
    clock.turn(SECOND)

    await run(store, Again())

    assert [lease.id for lease in await take(store)] == [second, first]


async def test_order_does_not_follow_ids(store):
    ids = sorted((new_id() for _ in range(20)), reverse=True)
    await put_in(store, *(new(id=job) for job in ids))

    assert [lease.id for lease in await take(store, 20)] == ids


async def test_each_lease_counts_an_attempt(store, clock):
    [job] = await put_in(store, new())
    assert (await run(store, Again())).attempt == 1

    [lease] = await take(store)

    assert lease.attempt == 2
    assert (await one(store, job)).attempt == 2


async def test_a_running_job_shows_since_when_it_is_leased_and_when_its_lease_runs_out(store, clock):
    jobs = await put_in(store, new(), new(lane="a"), new(delay=SECOND))  # ready, with a slot, and come due
    assert {(await one(store, job)).until for job in jobs} == {None}
    clock.turn(MINUTE)
    claimed = clock.now()
    leases = await take(store)
    clock.turn(SECOND)

    found = [await one(store, job) for job in jobs]
    assert [(job.since, job.until) for job in found] == [(claimed, claimed + LEASE_US)] * 3
    assert [(lease.claimed, lease.until) for lease in leases] == [(claimed, claimed + LEASE_US)] * 3
    assert {job.since for job in (await store.jobs.find(Filter(state=State.RUNNING))).items} == {claimed}

    for lease in leases:
        await end(store, lease, Again())
    assert {(await one(store, job)).until for job in jobs} == {None}
    clock.turn(SECOND)
    again = clock.now()
    await take(store)
    assert {(await one(store, job)).since for job in jobs} == {again}


async def test_a_repeated_ask_shows_since_when_its_jobs_are_leased(store, clock):
    [job] = await put_in(store, new())
    asked = ask()
    claimed = clock.now()
    await store.jobs.exchange([], asked)
    clock.turn(SECOND)

    [lease] = (await store.jobs.exchange([], asked)).leases

    assert (lease.claimed, (await one(store, job)).since) == (claimed, claimed)


async def test_a_lease_lasts_as_long_as_asked_for(store, clock):
    [job] = await put_in(store, new())
    clock.turn(SECOND)

    [lease] = (await store.jobs.exchange([], ask(lease=MINUTE))).leases

    running = await one(store, job)
    assert lease.until == clock.now() + MINUTE
    assert (running.state, running.until, running.worker) == (State.RUNNING, lease.until, WORKER)


async def test_each_lease_has_the_token_of_its_ask(store):
    await put_in(store, new(), new())
    request = ask()

    leases = (await store.jobs.exchange([], request)).leases

    assert [lease.token for lease in leases] == [request.token] * 2


async def test_a_job_is_leased_to_one_worker_only(store, second):
    jobs = await put_in(store, *(new() for _ in range(100)))
    workers = [new_id() for _ in range(10)]

    answers = await asyncio.gather(
        *(take(place, 20, worker=worker) for place, worker in zip((store, second) * 5, workers, strict=True))
    )
    rest = await take(store, 100)

    assert sorted(lease.id for answer in [*answers, rest] for lease in answer) == sorted(jobs)


async def test_shares_bound_each_queue_and_what_one_cannot_fill_goes_to_the_others_in_the_order_asked_up_to_their_most(
    store,
):
    await spread(store, a=1, b=9, c=9)

    leases = (await store.jobs.exchange([], asked(("a", 4, None), ("b", 2, 3), ("c", 2, None)))).leases

    assert by_queue(leases) == {"a": 1, "b": 3, "c": 4}


async def test_shares_hold_while_every_queue_can_fill_its_own(store):
    await spread(store, a=9, b=9)

    leases = (await store.jobs.exchange([], asked(("a", 3, None), ("b", 1, None)))).leases

    assert by_queue(leases) == {"a": 3, "b": 1}


async def test_leftovers_go_to_the_first_queue_asked_that_has_more(store):
    await spread(store, a=0, b=9, c=9)

    leases = (await store.jobs.exchange([], asked(("a", 3, None), ("b", 1, None), ("c", 1, None)))).leases

    assert by_queue(leases) == {"b": 4, "c": 1}


async def test_leftovers_never_pass_the_sum_of_shares(store):
    await spread(store, a=9, b=9)

    leases = (await store.jobs.exchange([], asked(("a", 2, None), ("b", 0, 5)))).leases

    assert by_queue(leases) == {"a": 2}


async def test_a_queue_without_a_share_takes_what_the_others_leave(store):
    await spread(store, a=1, b=9)

    leases = (await store.jobs.exchange([], asked(("a", 3, None), ("b", 0, 1)))).leases

    assert by_queue(leases) == {"a": 1, "b": 1}


async def test_a_most_equal_to_the_share_takes_no_leftovers(store):
    await spread(store, a=0, b=9)

    leases = (await store.jobs.exchange([], asked(("a", 3, None), ("b", 2, 2)))).leases

    assert by_queue(leases) == {"b": 2}


async def test_leftovers_of_a_queue_are_still_its_best(store):
    jobs = await put_in(store, *(new(queue="b", priority=priority) for priority in (3, 1, 2, 0)))

    leases = (await store.jobs.exchange([], asked(("a", 2, None), ("b", 1, None)))).leases

    assert [lease.id for lease in leases] == [jobs[3], jobs[1], jobs[2]]


async def test_an_ask_for_nothing_gives_nothing(store):
    [job] = await put_in(store, new())

    answer = await store.jobs.exchange([], ask(0))

    assert answer.leases == ()
    assert await state(store, job) is State.READY


async def test_a_paused_queue_gives_no_leases(store):
    [here, there] = await put_in(store, new(queue="here"), new(queue="there"))
    await store.queues.pause(["here"])

    leases = await take(store, 5, "here", "there")

    assert [lease.id for lease in leases] == [there]
    assert await state(store, here) is State.READY


async def test_the_share_of_a_paused_queue_goes_to_the_others(store):
    await spread(store, a=5, b=5)
    await store.queues.pause(["a"])

    leases = (await store.jobs.exchange([], asked(("a", 3, None), ("b", 1, None)))).leases

    assert by_queue(leases) == {"b": 4}


async def test_a_paused_queue_can_still_be_settled(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.queues.pause(["default"])

    assert await end(store, lease, Done()) is Verdict.WRITTEN
    assert await state(store, job) is State.DONE


async def test_more_says_that_ready_work_of_the_asked_queues_was_left_behind(store):
    await spread(store, a=2, b=1, c=5)

    answers = [await store.jobs.exchange([], asked(("a", 1, 1), ("b", 1, 1))) for _ in range(2)]

    assert [answer.more for answer in answers] == [True, False]


async def test_more_does_not_count_what_is_paused(store):
    await spread(store, a=2, b=1)
    await store.queues.pause(["a"])

    answer = await store.jobs.exchange([], asked(("a", 1, None), ("b", 1, None)))

    assert not answer.more


async def test_more_does_not_count_what_is_not_due(store):
    await put_in(store, new(), new(delay=HOUR))

    assert not (await store.jobs.exchange([], ask(1))).more


async def test_more_counts_what_has_come_due(store, clock):
    await put_in(store, new(delay=SECOND), new(delay=SECOND))
    clock.turn(MINUTE)

    answers = [await store.jobs.exchange([], ask(1)) for _ in range(2)]

    assert [answer.more for answer in answers] == [True, False]


async def test_more_says_nothing_when_nothing_is_asked_for(store):
    await put_in(store, new(), new(delay=HOUR))

    answer = await store.jobs.exchange([])

    assert (answer.more, answer.next_due) == (False, None)


async def test_the_next_due_moment_is_that_of_the_earliest_scheduled_job_of_the_asked_queues(store, clock):
    now = clock.now()
    for queue, delay in (("a", 3 * HOUR), ("a", 2 * HOUR), ("b", 4 * HOUR), ("c", MINUTE)):
        await put_in(store, new(queue=queue, delay=delay))

    answers = [await store.jobs.exchange([], ask(1, *queues)) for queues in (("a", "b"), ("b",), ("d",))]

    assert [answer.next_due for answer in answers] == [now + 2 * HOUR, now + 4 * HOUR, None]


async def test_the_next_due_moment_follows_what_has_come_due(store, clock):
    await put_in(store, new(delay=MINUTE, priority=9), new(delay=HOUR, priority=0))
    start = clock.now()
    clock.turn(2 * MINUTE)

    answer = await store.jobs.exchange([], ask())

    assert len(answer.leases) == 1
    assert answer.next_due == start + HOUR


async def test_the_next_due_moment_of_a_paused_queue_counts_too(store, clock):
    await put_in(store, new(queue="a", delay=HOUR), new(queue="b", delay=2 * HOUR))
    await store.queues.pause(["a"])

    answer = await store.jobs.exchange([], ask(1, "a", "b"))

    assert answer.next_due == clock.now() + HOUR


async def test_a_retry_of_the_same_call_is_the_next_due(store, clock):
    await put_in(store, new())
    [lease] = await take(store)

    answer = await store.jobs.exchange([Settlement(lease, Again(delay=MINUTE))], ask())

    assert (answer.leases, answer.next_due) == ((), clock.now() + MINUTE)


async def test_jobs_that_come_due_at_once_are_all_leased_in_the_end(store, clock):
    jobs = [new(delay=MINUTE + number) for number in range(1100)]
    for start in range(0, 1100, 500):
        await store.jobs.enqueue(jobs[start : start + 500])
    clock.turn(HOUR)
    leased: list[bytes] = []

    for _ in range(6):
        leased += [lease.id for lease in await take(store, 300)]

    assert leased == [job.id for job in jobs]


async def test_more_stays_while_jobs_come_due_faster_than_they_are_moved(store, clock):
    for _ in range(3):
        await put_in(store, *(new(delay=MINUTE) for _ in range(400)))
    clock.turn(HOUR)

    answers = [await store.jobs.exchange([], ask(400)) for _ in range(3)]

    assert [answer.more for answer in answers] == [True, True, False]
    assert sum(len(answer.leases) for answer in answers) == 1200


@pytest.mark.parametrize("lease", [1000, LEASE_US, HOUR])
async def test_a_lease_of_each_length_is_kept(store, clock, lease):
    await put_in(store, new())

    [given] = (await store.jobs.exchange([], ask(lease=lease, worker=OTHER))).leases

    assert given.until == clock.now() + lease
