"""What has ended and is not settled yet."""

import asyncio
import threading
from typing import Any

import pytest

from packhorse.engine.bell import Bell
from packhorse.engine.context import Context
from packhorse.engine.registry import Entry
from packhorse.engine.settler import Settler
from packhorse.model import caps
from packhorse.model.effect import Publish
from packhorse.model.job import failure
from packhorse.model.lease import Lease, Settlement
from packhorse.model.outcome import Again, Dead, Done, Held
from packhorse.model.reason import DeadReason


def lease(number: int = 0) -> Lease:
    return Lease(
        id=number.to_bytes(16, "big"), token=bytes(16), until=0, task="work", queue="default", payload=b"{}",
        headers=b"{}", priority=10, attempt=1, lost=0, born=0,
    )  # fmt: skip


def ended(number: int = 0, effects: int = 0) -> Settlement:
    return Settlement(lease(number), Done(), (Publish("news", b"1"),) * effects)


def attempt(number: int = 0) -> Context:
    return Context(lease(number), Entry(name="work", call=print))


@pytest.fixture
async def bell(clock: Any) -> Bell:
    return Bell(clock)


@pytest.fixture
async def settler(bell: Bell) -> Settler:
    return Settler(bell)


async def test_what_ended_is_given_out_in_order_and_once(settler):
    for number in range(5):
        settler.put(None, ended(number))

    assert [each.settlement for each in settler.take(caps.EXCHANGE_BYTES)] == [ended(number) for number in range(5)]
    assert settler.take(caps.EXCHANGE_BYTES) == []


async def test_a_batch_has_no_more_items_than_one_call_may_carry(settler):
    for number in range(caps.ITEMS + 1):
        settler.put(None, ended(number))

    assert len(settler.take(caps.EXCHANGE_BYTES)) == caps.ITEMS
    assert settler.backlog == 1
    assert len(settler.take(caps.EXCHANGE_BYTES)) == 1


async def test_a_batch_has_no_more_bytes_than_asked_for_and_at_least_one_item(settler):
    large = [
        Settlement(lease(0), Done(b"r" * 900)),
        Settlement(lease(1), Done(b"r" * 300)),
        Settlement(lease(2), Done(), (Publish("news", b"d" * 300),)),
        Settlement(lease(3), Again(error=failure("E", "m" * 100, "t" * 100))),
        Settlement(lease(4), Dead(DeadReason.FINAL, failure("E", "m" * 300))),
    ]
    for each in large:
        settler.put(None, each)

    assert [[each.settlement for each in settler.take(800)] for _ in range(4)] == [large[:1], large[1:4], large[4:], []]


async def test_what_is_put_back_comes_before_all_others(settler):
    for number in range(4):
        settler.put(None, Settlement(lease(number), Done(b"r" * 100)))

    settler.put_back(settler.take(200))

    assert [each.settlement.lease for each in settler.take(1000)] == [lease(number) for number in range(4)]


async def test_a_batch_has_no_more_effects_than_one_call_may_carry(settler):
    for number in range(9):
        settler.put(None, ended(number, effects=caps.EFFECTS))

    sizes = [len(settler.take(caps.EXCHANGE_BYTES)) for _ in range(3)]

    assert sizes == [4, 4, 1]
    assert 4 * caps.EFFECTS == caps.EFFECTS_PER_CALL


async def test_something_that_ended_wakes_the_exchange(settler, bell):
    settler.put(None, ended())

    assert await bell.wait(0)


async def test_a_change_in_a_thread_wakes_the_exchange(settler, bell):
    thread = threading.Thread(target=settler.wake_from_thread)
    thread.start()

    assert await asyncio.wait_for(bell.wait(), 5)
    thread.join()


async def test_what_an_attempt_wants_written_comes_before_its_end(settler):
    ctx = attempt()
    ctx.hold = settler.hold
    ctx.want([Publish("news", b"1")])
    settler.put(ctx, ended())

    assert [type(each.settlement.outcome) for each in settler.take(caps.EXCHANGE_BYTES)] == [Held, Done]


async def test_a_change_that_needs_no_settlement_wakes_the_exchange_too(settler, bell):
    settler.wake()

    assert await bell.wait(0)
    assert settler.backlog == 0
