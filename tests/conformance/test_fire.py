"""Effects that belong to no lease."""

import asyncio

import pytest

from packhorse.errors import TooManyEffects, TooManyItems
from packhorse.model import limits
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.event import Change
from packhorse.model.ids import chosen_id
from packhorse.model.job import State, UniqueKey, Until
from packhorse.model.lease import Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from tests.factories import HOUR, Wait, changes, end, new, put_in, state, take

WRITTEN, CONFLICT = Verdict.WRITTEN, Verdict.CONFLICT


async def value(store, key: str) -> bytes | None:
    [record] = await store.records.get("kind", [key])
    return record.value if record else None


def put(key: str, text: bytes = b"1", **options) -> Put:
    return Put("kind", key, text, **options)


async def test_write_effects_that_belong_to_no_lease_in_order(store):
    job = new()

    verdicts = await store.jobs.fire([[Enqueue(job), Publish("news", b'"here"'), put("key")], [put("key", b"2")]])

    assert verdicts == [WRITTEN, WRITTEN]
    assert await state(store, job.id) is State.READY
    assert await value(store, "key") == b"2"
    assert [event.data for event in await store.streams.read("news")] == [b'"here"']


async def test_each_move_is_written_whole_or_not_at_all_and_has_its_own_verdict(store):
    first, second, third = new(), new(), new()
    verdicts = await store.jobs.fire(
        [
            [Enqueue(first), put("a", expect=0)],
            [Enqueue(second), Publish("news", b"1"), put("b"), put("a", expect=0)],
            [Enqueue(third), put("c", expect=0)],
        ]
    )

    assert verdicts == [WRITTEN, CONFLICT, WRITTEN]
    assert [await state(store, job.id) for job in (first, second, third)] == [State.READY, None, State.READY]
    assert [await value(store, key) for key in "abc"] == [b"1", None, b"1"]
    assert await store.streams.read("news") == []


async def test_a_put_whose_expectation_fails_writes_nothing_of_its_move_and_comes_back_as_conflict(store):
    [version] = await store.records.put([put("key")])
    job = new()

    refused = await store.jobs.fire([[Enqueue(job), put("key", b"2", expect=version + 1)]])
    written = await store.jobs.fire([[Enqueue(job), put("key", b"2", expect=version)]])
    again = await store.jobs.fire([[Enqueue(new()), put("key", b"3", expect=version)]])

    assert (refused, written, again) == ([CONFLICT], [WRITTEN], [CONFLICT])
    assert await value(store, "key") == b"2"


async def test_what_a_move_puts_is_expected_by_the_next(store):
    assert await store.jobs.fire([[put("key", expect=0)], [put("key", b"2", expect=0)]]) == [WRITTEN, CONFLICT]
    assert await value(store, "key") == b"1"


async def test_jobs_of_a_move_are_enqueued_as_any_others(store, clock):
    known = chosen_id("app", "known")
    await put_in(store, new(id=known))
    unique, laned, later = UniqueKey("u", Until.FINISHED), {"lane": "l", "lane_limit": 1}, new(delay=HOUR)
    jobs = [new(id=known), new(unique=unique), new(unique=unique), new(**laned), new(**laned), later]

    assert await store.jobs.fire([[Enqueue(job)] for job in jobs]) == [WRITTEN] * 6

    states = [await state(store, job.id) for job in jobs]
    assert states == [State.READY, State.READY, None, State.READY, State.WAITING, State.SCHEDULED]
    assert (await changes(store))[-1] == [(Change.ENQUEUED, job.id) for job in jobs[1:] if job is not jobs[2]]


async def test_a_put_of_a_move_makes_the_jobs_ready_that_wait_for_its_record(store):
    await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Wait(WaitReason.SIGNAL, on=On("kind", "key")))

    await store.jobs.fire([[put("key")]])

    assert await state(store, lease.id) is State.READY


async def test_of_many_who_fire_the_same_at_once_one_does(store):
    [version] = await store.records.put([put("key")])
    jobs = [new() for _ in range(8)]

    verdicts = await asyncio.gather(
        *(store.jobs.fire([[Enqueue(job), put("key", b"2", expect=version)]]) for job in jobs)
    )

    assert sorted(word for [word] in verdicts) == sorted([WRITTEN] + [CONFLICT] * 7)
    assert sum([await state(store, job.id) is not None for job in jobs]) == 1


async def test_work_that_was_fired_wakes_a_worker(store):
    await take(store)
    await store.jobs.fire([[Enqueue(new())]])
    assert len(await take(store, 1)) == 1


async def test_nothing_to_fire_is_nothing(store):
    assert await store.jobs.fire([]) == []
    assert await store.jobs.fire([[]]) == [WRITTEN]


async def test_too_much_at_once_is_refused(store):
    with pytest.raises(TooManyItems):
        await store.jobs.fire([[]] * (limits.ITEMS + 1))
    with pytest.raises(TooManyEffects):
        await store.jobs.fire([[put("key")] * (limits.EFFECTS_PER_CALL + 1)])
