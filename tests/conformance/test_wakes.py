"""Hints that there may be something to look for. They come in real time, so these tests wait for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from packhorse.model.effect import Enqueue, Put
from packhorse.model.lease import Lease
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from packhorse.stores.contract import Store, Topic, WorkHint
from tests.factories import (
    DEAD,
    HOUR,
    MINUTE,
    OTHER,
    WORKER,
    Again,
    Cancelled,
    Done,
    Held,
    Wait,
    ask,
    end,
    laned,
    new,
    put_in,
    run,
    take,
)
from tests.integration.keyspaces import SERVERS

SOON = 10


@asynccontextmanager
async def listening(store: Store, topic: Topic) -> AsyncIterator[asyncio.Event]:
    """An event that is set whenever the store hints."""
    hinted = asyncio.Event()

    async def listen() -> None:
        async for _ in store.wakes(topic):
            hinted.set()

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)  # lets the listener begin
    try:
        yield hinted
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_yield_whenever_there_may_be_something_to_look_for_hints_may_be_missed_or_come_for_nothing(store, second):
    async with listening(store, Topic.WORK) as hinted:
        for _ in range(3):
            while await take(store):
                pass
            hinted.clear()
            await second.jobs.enqueue([new()])
            await asyncio.wait_for(hinted.wait(), SOON)


async def test_work_made_ready_wakes_a_worker_whose_last_ask_came_back_empty(store, second):
    assert await take(store) == []
    async with listening(store, Topic.WORK) as hinted:
        [job] = await put_in(second, new())

        await asyncio.wait_for(hinted.wait(), SOON)

    assert [lease.id for lease in await take(store)] == [job]


async def test_listen_for_one_worker_workers_of_one_store_that_serve_different_queues_are_each_woken_for_their_own(
    store, second
):
    def hints(worker: bytes) -> AsyncIterator[Any]:
        parking = store.parked_claims
        return store.wakes(Topic.WORK) if parking is None else parking.listener(worker).events()

    async def until_leased(worker: bytes, queue: str, listener: AsyncIterator[Any]) -> None:
        while not await take(store, 1, queue, worker=worker):
            await anext(listener)

    for first, then in (("a", "b"), ("b", "a")):  # the other one asks last
        ones, others = hints(WORKER), hints(OTHER)
        waiting = [
            asyncio.create_task(until_leased(WORKER, first, ones)),
            asyncio.create_task(until_leased(OTHER, then, others)),
        ]
        await asyncio.sleep(0.1)  # both asks came back empty
        await put_in(second, new(queue=first))
        await asyncio.wait_for(waiting[0], SOON)
        await put_in(second, new(queue=then))
        await asyncio.wait_for(waiting[1], SOON)
        for listener in (ones, others):
            await listener.aclose()


async def test_a_listener_from_before_the_empty_ask_is_woken_too(store, second):
    async with listening(store, Topic.WORK) as hinted:
        assert await take(store) == []
        hinted.clear()

        await put_in(second, new())

        await asyncio.wait_for(hinted.wait(), SOON)


async def test_the_next_of_the_iterator_comes_soon_after_the_work(store, second):
    assert await take(store) == []
    wakes = store.wakes(Topic.WORK)
    woken = asyncio.ensure_future(anext(wakes))
    await asyncio.sleep(0)  # lets the listener begin

    await put_in(second, new())

    assert await asyncio.wait_for(woken, SOON) is None


@pytest.mark.parametrize("kind", SERVERS)
async def test_park_a_claim_behind_the_wait_for_work_that_is_under_way_or_answer_false_if_none_is(store, second):
    assert await take(store) == []
    listener = store.parked_claims.listener(WORKER)
    assert not listener.park(ask(1))

    events = listener.events()
    assert await asyncio.wait_for(anext(events), SOON) is WorkHint.WAITING
    assert listener.park(ask(1))
    await events.aclose()
    assert not listener.park(ask(1))


@pytest.mark.parametrize("kind", SERVERS)
async def test_the_event_after_a_claim_was_parked_brings_its_answer_or_a_hint_then_the_same_claim_again_gives_the_same_leases(
    store, second
):
    assert await take(store) == []
    parked, listener = ask(1), store.parked_claims.listener(WORKER)
    events = listener.events()
    assert await asyncio.wait_for(anext(events), SOON) is WorkHint.WAITING
    assert listener.park(parked)
    [first, other] = await put_in(second, new(), new())
    event = await asyncio.wait_for(anext(events), SOON)
    await events.aclose()

    again = await store.jobs.exchange((), parked)
    assert [lease.id for lease in again.leases] == [first]
    assert event is WorkHint.WORK or event.leases == again.leases
    assert [lease.id for lease in await take(store)] == [other]


async def again(store: Store, lease: Lease) -> None:
    await end(store, lease, Again())


async def effect(store: Store, lease: Lease) -> None:
    await end(store, lease, Held(1), Enqueue(new("effect")))


async def done(store: Store, lease: Lease) -> None:
    await end(store, lease, Done())


async def put(store: Store, lease: Lease) -> None:
    await store.records.put([Put("signal", "go", b"1")])


async def release(store: Store, lease: Lease) -> None:
    await store.jobs.release(WaitReason.LIMIT)


async def replay(store: Store, lease: Lease) -> None:
    await store.jobs.cancel([lease.id])
    await end(store, lease, Cancelled())
    await store.jobs.replay([lease.id])


async def promote(store: Store, lease: Lease) -> None:
    [later] = await put_in(store, new(delay=HOUR))
    await store.jobs.promote([later])


async def drop(store: Store, lease: Lease) -> None:
    await store.jobs.drop([lease.id])


@pytest.mark.parametrize("act", [again, effect, done, put, release, replay, promote, drop])
async def test_every_way_to_make_work_ready_wakes(store, second, act):
    await put_in(store, new(), new())
    await run(store, Wait(WaitReason.LIMIT))
    await run(store, Wait(WaitReason.SIGNAL, On("signal", "go")))
    await put_in(store, laned(), laned())
    [lease] = await take(store, worker=OTHER)
    assert await take(store) == []
    async with listening(store, Topic.WORK) as hinted:
        await act(second, lease)

        await asyncio.wait_for(hinted.wait(), SOON)

    assert len(await take(store)) == 1


async def test_a_lease_taken_back_wakes(store, second, clock):
    [job] = await put_in(store, new())
    await take(store, worker=OTHER)
    assert await take(store) == []
    async with listening(store, Topic.WORK) as hinted:
        clock.turn(HOUR)
        await second.jobs.reap(10)

        await asyncio.wait_for(hinted.wait(), SOON)

    assert [lease.id for lease in await take(store)] == [job]


async def test_several_listeners_of_one_store_are_woken(store, second):
    assert await take(store) == []
    async with listening(store, Topic.WORK) as one, listening(store, Topic.WORK) as other:
        await put_in(second, new())

        await asyncio.wait_for(asyncio.gather(one.wait(), other.wait()), SOON)


async def dead(store: Store, lease: Lease) -> None:
    await end(store, lease, DEAD)


async def off(store: Store, lease: Lease) -> None:
    await end(store, lease, Cancelled())


@pytest.mark.parametrize("act", [done, dead, off, drop])
async def test_the_end_of_a_watched_job_wakes_those_who_listen_for_ends(store, second, act):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    async with listening(store, Topic.ENDS) as hinted:
        assert await store.jobs.watch([job], MINUTE) == {}
        hinted.clear()

        await act(second, lease)

        await asyncio.wait_for(hinted.wait(), SOON)


async def test_a_cancelled_job_wakes_those_who_watch_it(store, second):
    [job] = await put_in(store, new())
    async with listening(store, Topic.ENDS) as hinted:
        await store.jobs.watch([job], MINUTE)
        hinted.clear()

        await second.jobs.cancel([job])

        await asyncio.wait_for(hinted.wait(), SOON)


async def test_a_poisoned_job_wakes_those_who_watch_it(store, second, clock):
    [job] = await put_in(store, new())
    await run(store, Held(1))
    async with listening(store, Topic.ENDS) as hinted:
        await store.jobs.watch([job], HOUR * 2)
        clock.turn(HOUR)
        hinted.clear()

        await second.jobs.reap(10, max_lost=1)

        await asyncio.wait_for(hinted.wait(), SOON)


async def test_a_watch_from_another_store_is_noticed(store, second):
    [job] = await put_in(store, new())
    async with listening(second, Topic.ENDS) as hinted:
        await second.jobs.watch([job], MINUTE)
        hinted.clear()

        await run(store, Done())

        await asyncio.wait_for(hinted.wait(), SOON)

    assert list(await second.jobs.watch([job], MINUTE)) == [job]
