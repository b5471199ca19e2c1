"""Concurrent enqueues of one process share a round trip and a commit; alone, a call goes at once."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from packhorse import App
from packhorse.errors import DurabilityNotMet, OutcomeUnknown, PayloadTooLarge, StoreUnavailable
from packhorse.jobs.enqueue_batcher import EnqueueBatcher
from packhorse.model import limits
from packhorse.model.job import NewJob, Receipt, State
from packhorse.model.page import Filter
from packhorse.stores.contract import Store
from tests.factories import new


class Counted:
    """The enqueue of a real store; notes how many jobs went with each trip, and can be held back or made to fail."""

    def __init__(self, store: Store) -> None:
        self.sizes: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.takes: asyncio.Task[Any] | None = None
        self._store = store

    async def __call__(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        self.sizes.append(len(jobs))
        self.takes = asyncio.current_task()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._store.jobs.enqueue(jobs)


@pytest.fixture
async def store(app: App) -> Store:
    return await app.store()


async def started(count: int, batcher: EnqueueBatcher, jobs: Sequence[NewJob]) -> list["asyncio.Task[list[Receipt]]"]:
    tasks = [asyncio.create_task(batcher.enqueue([job])) for job in jobs]
    await asyncio.sleep(0)
    assert len(tasks) == count
    return tasks


async def test_a_call_that_is_alone_goes_at_once(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)

    for _ in range(3):
        await batcher.enqueue([new()])

    assert counted.sizes == [1, 1, 1]


async def test_a_thousand_concurrent_calls_share_a_few_batches(store):
    counted, jobs = Counted(store), [new() for _ in range(1000)]
    batcher = EnqueueBatcher(counted)

    receipts = await asyncio.gather(*(batcher.enqueue([job]) for job in jobs))

    assert counted.sizes == [1, limits.ITEMS, 999 - limits.ITEMS]
    assert [receipt for [receipt] in receipts] == [Receipt(job.id, True) for job in jobs]
    assert (await store.jobs.count())["default"][State.READY] == 1000


async def test_jobs_that_share_a_trip_keep_the_order_of_their_calls(store):
    batcher = EnqueueBatcher(Counted(store))
    await asyncio.gather(*(batcher.enqueue([new(f"task-{n:03}")]) for n in range(200)))

    found = await store.jobs.find(Filter(queue="default"), limit=500)

    assert [job.task for job in found.items] == [f"task-{n:03}" for n in range(200)]


async def test_each_caller_has_its_own_verdict(store):
    counted, first = Counted(store), new()
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    tasks = await started(3, batcher, [new(), first, new(id=first.id)])
    counted.gate.set()

    _, [made], [again] = await asyncio.gather(*tasks)

    assert (made, again) == (Receipt(first.id, True), Receipt(first.id, False))


async def test_a_call_that_is_refused_does_not_spoil_it_for_others(store):
    class Choosy(Counted):
        async def __call__(self, jobs: Sequence[NewJob]) -> list[Receipt]:
            await self.gate.wait()
            if any(job.task == "refused" for job in jobs):
                raise PayloadTooLarge("payload", 2, 1)
            return await super().__call__(jobs)

    counted = Choosy(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    tasks = await started(4, batcher, [new(), new("fine"), new("refused"), new("fine")])
    counted.gate.set()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [list, list, PayloadTooLarge, list]
    assert (await store.jobs.count())["default"][State.READY] == 3


async def test_a_store_that_is_down_fails_all_aboard_and_the_next_trip_goes_again(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    counted.error = StoreUnavailable("down")
    tasks = await started(3, batcher, [new(), new(), new()])
    counted.gate.set()

    answers = await asyncio.gather(*tasks, return_exceptions=True)
    counted.error = None
    [receipt] = await batcher.enqueue([new()])

    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    assert counted.sizes == [1, 2, 1]
    assert receipt.created


async def test_who_gives_up_waiting_stays_behind(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    first, impatient, last = await started(3, batcher, [new(), new("impatient"), new()])
    impatient.cancel()
    counted.gate.set()

    await asyncio.gather(first, last)

    assert counted.sizes == [1, 1]
    assert (await store.jobs.count())["default"][State.READY] == 2


async def test_a_caller_cancelled_under_way_does_not_stop_those_behind(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    first, second = await started(2, batcher, [new(), new()])
    first.cancel()
    await asyncio.sleep(0)
    counted.gate.set()

    [receipt] = await second

    assert receipt.created


async def test_a_trip_that_is_cancelled_leaves_nobody_waiting(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    first, *aboard = await started(3, batcher, [new(), new(), new()])
    counted.gate.set()
    await first
    counted.gate.clear()
    while counted.sizes != [1, 2]:
        await asyncio.sleep(0)
    late = asyncio.create_task(batcher.enqueue([new()]))
    await asyncio.sleep(0)

    assert counted.takes not in (None, first, *aboard)
    counted.takes.cancel()
    answers = await asyncio.wait_for(asyncio.gather(*aboard, late, return_exceptions=True), 5)
    counted.gate.set()
    [receipt] = await batcher.enqueue([new()])

    assert [type(answer) for answer in answers] == [OutcomeUnknown, OutcomeUnknown, asyncio.CancelledError]
    assert receipt.created


async def test_large_jobs_do_not_share_a_trip(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    payload = b'"' + b"x" * (600 << 10) + b'"'
    tasks = await started(4, batcher, [new(payload=payload) for _ in range(4)])
    counted.gate.set()

    await asyncio.gather(*tasks)

    assert counted.sizes == [1, 1, 1, 1]


async def test_calls_of_tasks_share_batches_too(app):
    @app.task
    async def note(number: int) -> int:
        return number

    handles = await asyncio.gather(*(note.enqueue(n) for n in range(100)))

    assert all(handle.created for handle in handles)
    assert (await (await app.store()).jobs.count())["default"][State.READY] == 100


async def test_a_shared_trip_that_replicas_do_not_have_is_not_repeated_for_each_caller(store):
    counted = Counted(store)
    batcher = EnqueueBatcher(counted)
    counted.gate.clear()
    tasks = await started(3, batcher, [new(), new(), new()])
    counted.error = DurabilityNotMet("0 of 1 replicas have it")
    counted.gate.set()

    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in ended] == [DurabilityNotMet] * 3
    assert counted.sizes == [1, 2]
