"""Settlements on their way to the store."""

import asyncio
import threading
from typing import Any

import pytest

from packhorse.engine.attempt import Attempt
from packhorse.engine.registry import Entry
from packhorse.engine.settlement_queue import SettlementQueue
from packhorse.engine.wakeup import Wakeup
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.job import failure
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Again, Dead, Done, Held
from packhorse.model.reason import DeadReason


def lease(number: int = 0) -> Lease:
    return Lease(
        id=number.to_bytes(16, "big"), token=bytes(16), until=0, task="work", queue="default", payload=b"{}",
        headers=b"{}", priority=10, attempt=1, lost=0, enqueued_at=0,
    )  # fmt: skip


def ended(number: int = 0, effects: int = 0) -> Settlement:
    return Settlement(lease(number), Done(), (Publish("news", b"1"),) * effects)


def attempt(number: int = 0) -> Attempt:
    return Attempt(lease(number), Entry(name="work", call=print))


@pytest.fixture
async def wakeup(clock: Any) -> Wakeup:
    return Wakeup(clock)


@pytest.fixture
async def queue(wakeup: Wakeup) -> SettlementQueue:
    return SettlementQueue(wakeup)


async def test_what_ended_is_given_out_in_order_and_once(queue):
    for number in range(5):
        queue.put(None, ended(number))

    assert [each.settlement for each in queue.take(limits.EXCHANGE_BYTES)] == [ended(number) for number in range(5)]
    assert queue.take(limits.EXCHANGE_BYTES) == []


async def test_a_batch_has_no_more_items_than_one_call_may_carry(queue):
    for number in range(limits.ITEMS + 1):
        queue.put(None, ended(number))

    assert len(queue.take(limits.EXCHANGE_BYTES)) == limits.ITEMS
    assert queue.backlog == 1
    assert len(queue.take(limits.EXCHANGE_BYTES)) == 1


async def test_a_batch_has_no_more_bytes_than_asked_for_and_at_least_one_item(queue):
    large = [
        Settlement(lease(0), Done(b"r" * 900)),
        Settlement(lease(1), Done(b"r" * 300)),
        Settlement(lease(2), Done(), (Publish("news", b"d" * 300),)),
        Settlement(lease(3), Again(error=failure("E", "m" * 100, "t" * 100))),
        Settlement(lease(4), Dead(DeadReason.FINAL, failure("E", "m" * 300))),
    ]
    for each in large:
        queue.put(None, each)

    assert [[each.settlement for each in queue.take(800)] for _ in range(4)] == [large[:1], large[1:4], large[4:], []]


async def test_what_is_put_back_comes_before_all_others(queue):
    for number in range(4):
        queue.put(None, Settlement(lease(number), Done(b"r" * 100)))

    queue.put_back(queue.take(200))

    assert [each.settlement.lease for each in queue.take(1000)] == [lease(number) for number in range(4)]


async def test_a_batch_has_no_more_effects_than_one_call_may_carry(queue):
    for number in range(9):
        queue.put(None, ended(number, effects=limits.EFFECTS))

    sizes = [len(queue.take(limits.EXCHANGE_BYTES)) for _ in range(3)]

    assert sizes == [4, 4, 1]
    assert 4 * limits.EFFECTS == limits.EFFECTS_PER_CALL


async def test_something_that_ended_wakes_the_exchange(queue, wakeup):
    queue.put(None, ended())

    assert await wakeup.wait(0)


async def test_a_change_in_a_thread_wakes_the_exchange(queue, wakeup):
    thread = threading.Thread(target=queue.wake_from_thread)
    thread.start()

    assert await asyncio.wait_for(wakeup.wait(), 5)
    thread.join()


async def test_what_an_attempt_wants_written_comes_before_its_end(queue):
    running = attempt()
    running.write_effects = queue.hold
    running.emit([Publish("news", b"1")])
    queue.put(running, ended())

    assert [type(each.settlement.outcome) for each in queue.take(limits.EXCHANGE_BYTES)] == [Held, Done]


async def test_a_change_that_needs_no_settlement_wakes_the_exchange_too(queue, wakeup):
    queue.wake()

    assert await wakeup.wait(0)
    assert queue.backlog == 0
