"""What a settlement writes besides its outcome."""

import asyncio

import pytest

from packhorse.errors import InvalidName, TooManyEffects
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.event import LIFECYCLE
from packhorse.model.job import State, UniqueKey
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import On
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
    ask,
    end,
    found,
    new,
    one,
    put_in,
    run,
    state,
    states,
    take,
)

GO = On("signal", "go")


async def value(store, key: str = "key", kind: str = "kind") -> bytes | None:
    [record] = await store.records.get(kind, [key])
    return record.value if record else None


async def version(store, key: str = "key", kind: str = "kind") -> int:
    [record] = await store.records.get(kind, [key])
    return record.version if record else 0


async def test_a_held_job_keeps_its_lease_while_its_effects_are_written(store, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    clock.turn(SECOND)
    child = new(delay=HOUR)

    verdict = await end(store, lease, Held(1), Enqueue(child), Publish("news", b"1"), Put("kind", "key", b"1"))

    assert verdict is Verdict.WRITTEN
    held = await one(store, job)
    assert (held.state, held.until, held.attempt) == (State.RUNNING, lease.until, 1)
    assert await state(store, child.id) is State.SCHEDULED
    assert len(await store.streams.read("news")) == 1
    assert await value(store) == b"1"


async def test_a_held_job_can_be_settled_afterwards(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    for step in range(1, 4):
        await end(store, lease, Held(step))

    assert await end(store, lease, Done(b"1")) is Verdict.WRITTEN
    assert await state(store, job) is State.DONE


@pytest.mark.parametrize("outcome", [Done(), Again(), Wait(WaitReason.LIMIT), DEAD, Cancelled(), Held(1)])
async def test_effects_are_written_with_every_outcome(store, outcome):
    await put_in(store, new())
    child = new(delay=HOUR)

    await run(store, outcome, Enqueue(child), Publish("news", b"1"), Put("kind", "key", b"1"))

    assert await state(store, child.id) is State.SCHEDULED
    assert len(await store.streams.read("news")) == 1
    assert await value(store) == b"1"


async def test_a_put_whose_expectation_fails_writes_nothing_of_its_settlement_and_comes_back_as_conflict(
    store,
):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.records.put([Put("kind", "key", b"old")])
    child = new()
    puts = (Put("kind", "free", b"new", expect=0), Put("kind", "key", b"new", expect=0))

    verdict = await end(store, lease, Done(b"1"), Enqueue(child), Publish("news", b"1"), *puts)

    assert verdict is Verdict.CONFLICT
    assert await states(store, job, child.id) == [State.RUNNING, None]
    assert await store.streams.read("news") == []
    assert (await value(store), await value(store, "free")) == (b"old", None)


async def test_a_job_whose_settlement_met_a_conflict_can_be_settled_again(store):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await store.records.put([Put("kind", "key", b"old")])
    await end(store, lease, Done(), Put("kind", "key", b"new", expect=1))

    verdict = await end(store, lease, Done(), Put("kind", "key", b"new", expect=await version(store)))

    assert verdict is Verdict.WRITTEN
    assert (await state(store, job), await value(store)) == (State.DONE, b"new")


async def test_a_held_step_that_met_a_conflict_can_be_written_again(store):
    await put_in(store, new())
    [lease] = await take(store)
    await store.records.put([Put("kind", "key", b"old")])
    assert await end(store, lease, Held(1), Put("kind", "key", b"new", expect=0)) is Verdict.CONFLICT

    assert await end(store, lease, Held(1), Put("kind", "key", b"new")) is Verdict.WRITTEN


@pytest.mark.parametrize(("expect", "verdict"), [(0, Verdict.WRITTEN), (1, Verdict.CONFLICT)])
async def test_expectations_of_an_absent_record(store, expect, verdict):
    await put_in(store, new())
    [lease] = await take(store)

    assert await end(store, lease, Done(), Put("kind", "key", b"1", expect=expect)) is verdict
    assert await value(store) == (b"1" if verdict is Verdict.WRITTEN else None)


async def test_an_expired_record_counts_as_absent_for_an_effect(store, clock):
    await put_in(store, new())
    await store.records.put([Put("kind", "key", b"old", expires=clock.now() + SECOND)])
    clock.turn(2 * SECOND)

    await run(store, Done(), Put("kind", "key", b"new", expect=0))

    assert await value(store) == b"new"


async def test_an_effect_without_a_value_drops_its_record(store):
    await put_in(store, new())
    await store.records.put([Put("kind", "key", b"old")])

    await run(store, Done(), Put("kind", "key", None, expect=await version(store)))

    assert await value(store) is None


async def test_puts_of_one_call_are_checked_in_order(store):
    await put_in(store, *(new() for _ in range(3)))
    leases = await take(store)

    answer = await store.jobs.exchange([
        Settlement(lease, Done(), (Put("kind", "key", word, expect=0), Publish("news", word)))
        for word, lease in zip((b"0", b"1", b"2"), leases, strict=True)
    ])  # fmt: skip

    assert answer.verdicts == (Verdict.WRITTEN, Verdict.CONFLICT, Verdict.CONFLICT)
    assert await value(store) == b"0"
    assert [event.data for event in await store.streams.read("news")] == [b"0"]


async def test_a_put_of_a_settlement_in_conflict_is_not_seen_by_the_next(store):
    await put_in(store, new(), new())
    await store.records.put([Put("kind", "taken", b"old")])
    first, second = await take(store)

    answer = await store.jobs.exchange([
        Settlement(first, Done(), (Put("kind", "key", b"1", expect=0), Put("kind", "taken", b"1", expect=0))),
        Settlement(second, Done(), (Put("kind", "key", b"2", expect=0),)),
    ])  # fmt: skip

    assert answer.verdicts == (Verdict.CONFLICT, Verdict.WRITTEN)
    assert await value(store) == b"2"


async def test_a_record_dropped_by_one_settlement_is_absent_for_the_next(store):
    await put_in(store, new(), new())
    await store.records.put([Put("kind", "key", b"old")])
    first, second = await take(store)

    answer = await store.jobs.exchange([
        Settlement(first, Done(), (Put("kind", "key", None),)),
        Settlement(second, Done(), (Put("kind", "key", b"new", expect=0),)),
    ])  # fmt: skip

    assert answer.verdicts == (Verdict.WRITTEN, Verdict.WRITTEN)
    assert await value(store) == b"new"


async def test_two_who_put_over_the_same_version_at_once_do_not_both_succeed(store, second):
    await put_in(store, *(new() for _ in range(10)))
    leases = await take(store)

    verdicts = await asyncio.gather(
        *(
            end(place, lease, Done(), Put("kind", "key", b"1", expect=0))
            for place, lease in zip((store, second) * 5, leases, strict=True)
        )
    )

    assert sorted(verdicts) == [Verdict.CONFLICT] * 9 + [Verdict.WRITTEN]


async def test_effects_of_a_settlement_that_is_not_written_are_dropped(store):
    await put_in(store, new())
    [lease] = await take(store)
    await store.jobs.drop([lease.id])
    child = new(unique=UniqueKey("k"))

    verdict = await end(store, lease, Done(), Enqueue(child), Publish("news", b"1"), Put("kind", "key", b"1"))

    assert verdict is Verdict.LOST
    assert await found(store) == []
    assert await store.streams.read("news") == []
    assert await value(store) is None
    assert (await store.jobs.enqueue([new(unique=UniqueKey("k"))]))[0].created


async def test_published_effects_get_offsets_in_the_order_of_the_settlements(store):
    await put_in(store, new(), new())
    first, second = await take(store)

    await store.jobs.exchange([
        Settlement(first, Done(), (Publish("news", b"1", "k"), Publish("odd", b"9"), Publish("news", b"2"))),
        Settlement(second, Done(), (Publish("news", b"3"),)),
    ])  # fmt: skip

    events = await store.streams.read("news")
    assert [(event.offset, event.data, event.key) for event in events] == [
        (1, b"1", "k"), (2, b"2", None), (3, b"3", None),
    ]  # fmt: skip


async def test_enqueued_effects_are_ready_in_the_order_of_the_settlements(store):
    await put_in(store, new(), new())
    leases = await take(store)
    jobs = [new() for _ in range(4)]

    answer = await store.jobs.exchange([
        Settlement(leases[0], Done(), (Enqueue(jobs[0]), Enqueue(jobs[1]))),
        Settlement(leases[1], Done(), (Enqueue(jobs[2]), Enqueue(jobs[3]))),
    ], ask())  # fmt: skip

    assert [lease.id for lease in answer.leases] == [job.id for job in jobs]


async def test_an_event_for_the_lifecycle_is_refused_and_nothing_is_written(store):
    jobs = await put_in(store, new(), new())
    first, second = await take(store)

    with pytest.raises(InvalidName):
        await store.jobs.exchange([Settlement(first, Done()), Settlement(second, Done(), (Publish(LIFECYCLE, b"1"),))])

    assert await states(store, *jobs) == [State.RUNNING, State.RUNNING]


async def test_more_effects_than_the_cap_of_a_call_are_refused_and_nothing_is_written(store):
    jobs = await put_in(store, *(new() for _ in range(5)))
    settlements = [Settlement(lease, Done(), (Publish("news", b"1"),) * 401) for lease in await take(store)]

    with pytest.raises(TooManyEffects):
        await store.jobs.exchange(settlements)

    assert await states(store, *jobs) == [State.RUNNING] * 5
    assert await store.streams.read("news") == []


async def test_as_many_effects_as_the_cap_of_a_call_are_written(store):
    await put_in(store, *(new() for _ in range(4)))
    leases = await take(store)

    answer = await store.jobs.exchange([Settlement(lease, Done(), (Publish("news", b"1"),) * 500) for lease in leases])

    assert answer.verdicts == (Verdict.WRITTEN,) * 4
    assert len(await store.streams.read("news", after=1000, limit=1000)) == 1000


async def test_a_job_waits_for_its_record(store, clock):
    [job] = await put_in(store, new())

    await run(store, Wait(WaitReason.SIGNAL, GO, detail="for a signature"))

    waiting = await one(store, job)
    assert (waiting.state, waiting.reason, waiting.detail) == (
        State.WAITING, WaitReason.SIGNAL, "for a signature",
    )  # fmt: skip


async def test_a_record_put_by_the_settlement_itself_ends_its_wait(store):
    [job] = await put_in(store, new())

    await run(store, Wait(WaitReason.SIGNAL, GO), Put("signal", "go", b"1"))

    assert await state(store, job) is State.READY


async def test_a_record_dropped_by_the_settlement_itself_is_waited_for(store):
    [job] = await put_in(store, new())
    await store.records.put([Put("signal", "go", b"1")])

    await run(store, Wait(WaitReason.SIGNAL, GO), Put("signal", "go", None))

    assert await state(store, job) is State.WAITING


async def test_an_effect_makes_the_jobs_ready_that_wait_for_its_record(store, clock):
    [waiter] = await put_in(store, new())
    await run(store, Wait(WaitReason.SIGNAL, GO))
    await put_in(store, new())
    clock.turn(SECOND)

    await run(store, Done(), Put("signal", "go", b"1"))

    ready = await one(store, waiter)
    assert (ready.state, ready.since, ready.reason) == (State.READY, clock.now(), None)


async def test_a_job_released_by_an_effect_is_leased_in_the_same_call(store):
    [waiter] = await put_in(store, new())
    await run(store, Wait(WaitReason.SIGNAL, GO))
    await put_in(store, new())
    [lease] = await take(store)

    answer = await store.jobs.exchange([Settlement(lease, Done(), (Put("signal", "go", b"1"),))], ask())

    assert [lease.id for lease in answer.leases] == [waiter]


async def test_a_record_that_is_not_new_enough_is_waited_for(store):
    [job] = await put_in(store, new())
    [seen] = await store.records.put([Put("signal", "go", b"1")])
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go", after=seen)))
    assert await state(store, job) is State.WAITING

    await store.records.put([Put("signal", "go", b"2")])

    assert await state(store, job) is State.READY


async def test_an_expired_record_is_waited_for(store, clock):
    [job] = await put_in(store, new())
    await store.records.put([Put("signal", "go", b"1", expires=clock.now() + SECOND)])
    clock.turn(2 * SECOND)

    await run(store, Wait(WaitReason.SIGNAL, GO))

    assert await state(store, job) is State.WAITING


async def test_a_wait_is_judged_before_the_settlements_that_follow_it(store):
    jobs = await put_in(store, new(), new())
    first, second = await take(store)

    await store.jobs.exchange([
        Settlement(first, Wait(WaitReason.SIGNAL, GO), (Put("signal", "go", b"1"),)),
        Settlement(second, Done(), (Put("signal", "go", None),)),
    ])  # fmt: skip

    assert await states(store, *jobs) == [State.READY, State.DONE]


async def test_a_put_that_follows_a_wait_in_the_same_call_ends_it(store):
    jobs = await put_in(store, new(), new())
    first, second = await take(store)

    await store.jobs.exchange([
        Settlement(first, Wait(WaitReason.SIGNAL, GO)),
        Settlement(second, Done(), (Put("signal", "go", b"1"),)),
    ])  # fmt: skip

    assert await states(store, *jobs) == [State.READY, State.DONE]
