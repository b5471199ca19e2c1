"""Storing jobs."""

import asyncio

import pytest

from packhorse.errors import TooManyItems
from packhorse.model.ids import chosen_id
from packhorse.model.job import Receipt, State, UniqueKey
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    SECOND,
    Done,
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


async def test_store_jobs_all_or_none_and_say_for_each_which_job_stands_for_it(store):
    first, holder = new(), new(unique=UniqueKey("k"))
    await store.jobs.enqueue([first, holder])
    fresh, twin, rival = new(), new(id=first.id), new(unique=UniqueKey("k"))

    receipts = await store.jobs.enqueue([fresh, twin, rival])

    assert receipts == [Receipt(fresh.id, True), Receipt(first.id, False), Receipt(holder.id, False)]
    assert {job.id for job in await found(store)} == {first.id, holder.id, fresh.id}


async def test_a_job_without_delay_is_ready(store, clock):
    [job] = await put_in(store, new())

    ready = await one(store, job)

    assert (ready.state, ready.since, ready.enqueued_at) == (State.READY, clock.now(), clock.now())


async def test_a_job_due_later_is_scheduled_and_can_be_leased_when_its_moment_has_come(store, clock):
    [job] = await put_in(store, new(delay=MINUTE))
    assert await state(store, job) is State.SCHEDULED
    clock.turn(MINUTE - 1)
    assert await take(store) == []

    clock.turn(1)

    assert [lease.id for lease in await take(store)] == [job]


async def test_a_moment_in_the_past_makes_a_job_ready_at_once(store, clock):
    jobs = await put_in(store, new(at=1), new(at=clock.now()), new(at=clock.now() - HOUR))

    assert await states(store, *jobs) == [State.READY] * 3


async def test_an_id_that_is_there_already_gives_the_first_job_and_creates_nothing(store):
    first = new("first", payload=b'"first"')
    await store.jobs.enqueue([first])

    receipts = await store.jobs.enqueue([new("other", id=first.id, queue="other", payload=b'"other"')])

    assert receipts == [Receipt(first.id, False)]
    job = await one(store, first.id)
    assert (job.task, job.queue, job.payload) == ("first", "default", b'"first"')
    assert len(await found(store)) == 1


async def test_the_same_id_twice_in_one_call_creates_one_job(store):
    first = new("first")

    receipts = await store.jobs.enqueue([first, new("twin", id=first.id), new("third", id=first.id)])

    assert receipts == [Receipt(first.id, True), Receipt(first.id, False), Receipt(first.id, False)]
    assert [job.task for job in await found(store)] == ["first"]


async def test_more_jobs_than_the_cap_are_refused_and_none_is_stored(store):
    with pytest.raises(TooManyItems):
        await store.jobs.enqueue([new() for _ in range(501)])

    assert await found(store) == []


async def test_as_many_jobs_as_the_cap_are_stored_in_order(store):
    jobs = [new() for _ in range(500)]

    receipts = await store.jobs.enqueue(jobs)

    assert receipts == [Receipt(job.id, True) for job in jobs]
    assert [lease.id for lease in await take(store, 500)] == [job.id for job in jobs]


async def test_no_jobs_are_no_trouble(store):
    assert await store.jobs.enqueue([]) == []


@pytest.mark.parametrize("together", [True, False])
async def test_a_job_is_due_at_the_later_of_its_moment_and_its_delay(store, clock, together):
    now = clock.now()
    new_jobs = [new(at=now + HOUR, delay=MINUTE), new(at=now + SECOND, delay=MINUTE), new(at=1, delay=SECOND)]

    for call in [new_jobs] if together else [[new_job] for new_job in new_jobs]:
        await store.jobs.enqueue(call)

    jobs = [await one(store, new_job.id) for new_job in new_jobs]
    assert [job.since for job in jobs] == [now + HOUR, now + MINUTE, now + SECOND]
    assert {job.state for job in jobs} == {State.SCHEDULED}


async def test_the_record_of_a_job_is_kept_as_it_was_given(store, clock):
    new_job = new(
        "mail.send", queue="mail", payload=b'{"to": "a"}', headers=b'{"trace":"x"}', tenant="acme",
        priority=3, lane="a", lane_limit=7, parent=new_id(), unique=UniqueKey("k"),
    )  # fmt: skip
    await store.jobs.enqueue([new_job])

    job = await one(store, new_job.id)

    for field in (
        "task",
        "queue",
        "payload",
        "headers",
        "tenant",
        "priority",
        "lane",
        "lane_limit",
        "parent",
    ):
        assert getattr(job, field) == getattr(new_job, field), field
    assert (job.unique, job.enqueued_at, job.attempt, job.lost) == ("k", clock.now(), 0, 0)


async def test_a_lease_carries_the_record_of_its_job(store, clock):
    new_job = new(
        "mail.send", queue="mail", payload=b'{"to": "a"}', headers=b'{"trace":"x"}', priority=3, lane="a",
        parent=new_id(),
    )  # fmt: skip
    await store.jobs.enqueue([new_job])
    clock.turn(SECOND)

    [lease] = await take(store, 1, "mail")

    for field in ("id", "task", "queue", "payload", "headers", "priority", "lane", "parent"):
        assert getattr(lease, field) == getattr(new_job, field), field
    assert (lease.enqueued_at, lease.attempt, lease.lost) == (clock.now() - SECOND, 1, 0)


@pytest.mark.parametrize("ending", ["scheduled", "running", "waiting", "done", "dead", "cancelled"])
async def test_an_id_is_taken_in_every_state(store, ending):
    new_job = new(delay=HOUR if ending == "scheduled" else 0, children=1 if ending == "waiting" else 0)
    await store.jobs.enqueue([new_job])
    if ending == "running":
        await take(store)
    elif ending in ("done", "dead"):
        await run(store, Done() if ending == "done" else DEAD)
    elif ending == "cancelled":
        await store.jobs.cancel([new_job.id])
    assert await state(store, new_job.id) == ending

    receipts = await store.jobs.enqueue([new(id=new_job.id)])

    assert receipts == [Receipt(new_job.id, False)]
    assert await state(store, new_job.id) == ending


async def test_a_taken_id_comes_before_a_taken_key(store):
    first, holder = new(), new(unique=UniqueKey("k"))
    await store.jobs.enqueue([first, holder])

    [receipt] = await store.jobs.enqueue([new(id=first.id, unique=UniqueKey("k"))])

    assert receipt == Receipt(first.id, False)


async def test_a_duplicate_id_takes_no_unique_key(store):
    first = new()
    await store.jobs.enqueue([first, new(id=first.id, unique=UniqueKey("k"))])

    [receipt] = await store.jobs.enqueue([new(unique=UniqueKey("k"))])

    assert receipt.created


async def test_a_chosen_id_makes_one_job_however_often_it_is_enqueued(store, second):
    job = chosen_id("packhorse", "invoice:42")

    answers = [await place.jobs.enqueue([new(id=job)]) for place in (store, second, store)]

    assert answers == [[Receipt(job, True)], [Receipt(job, False)], [Receipt(job, False)]]


async def test_two_who_enqueue_the_same_jobs_at_once_create_each_job_once(store, second):
    jobs = [new() for _ in range(100)]

    one_side, other_side = await asyncio.gather(store.jobs.enqueue(jobs), second.jobs.enqueue(list(reversed(jobs))))

    created = [receipt.id for receipt in [*one_side, *other_side] if receipt.created]
    assert sorted(created) == sorted(job.id for job in jobs)
    assert len(await found(store)) == 100


async def test_two_who_enqueue_the_same_key_at_once_create_one_job(store, second):
    answers = await asyncio.gather(
        *(place.jobs.enqueue([new(unique=UniqueKey("k"))]) for place in (store, second) for _ in range(10))
    )

    receipts = [receipt for answer in answers for receipt in answer]
    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.id for receipt in receipts}) == 1


async def test_what_one_store_enqueues_another_leases(store, second):
    [job] = await put_in(store, new())

    [lease] = await take(second)

    assert lease.id == job
    assert await state(store, job) is State.RUNNING


async def test_queues_are_apart(store):
    [here, there] = await put_in(store, new(queue="here"), new(queue="there"))

    leases = await take(store, 10, "there")

    assert [lease.id for lease in leases] == [there]
    assert await state(store, here) is State.READY
