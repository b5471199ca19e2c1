"""A store whose calls go wrong on purpose."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packhorse.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from packhorse.stores import open_store
from packhorse.stores.contract import Store, Topic
from packhorse.testing.faults import Delay, DelayReply, DropReply, DropRequest, Fail, Faulty
from tests.making import new, put_in, state


@pytest.fixture
async def store(clock: Any) -> AsyncIterator[Store]:
    made = open_store("sqlite:///:memory:", clock=clock)
    await made.migrate()
    await made.open()
    yield made
    await made.close()


async def test_without_a_fault_a_call_passes(store):
    asked: list[Any] = []
    faulty = Faulty(store, lambda name, args: asked.append((name, args)))
    job = new()

    [receipt] = await faulty.jobs.enqueue([job])

    assert asked == [("jobs.enqueue", ([job],))]
    assert await state(store, receipt.id) == "ready"


async def test_a_dropped_request_never_reaches_the_store(store):
    job = new()

    with pytest.raises(StoreUnavailable):
        await Faulty(store, lambda name, args: DropRequest()).jobs.enqueue([job])

    assert await state(store, job.id) is None


async def test_a_dropped_reply_leaves_its_work_done(store):
    job = new()

    with pytest.raises(OutcomeUnknown):
        await Faulty(store, lambda name, args: DropReply()).jobs.enqueue([job])

    assert await state(store, job.id) == "ready"


async def test_a_refused_call_does_nothing(store):
    job, error = new(), InvalidOption("x", 1, "on purpose")

    with pytest.raises(InvalidOption) as caught:
        await Faulty(store, lambda name, args: Fail(error)).jobs.enqueue([job])

    assert caught.value is error
    assert await state(store, job.id) is None


@pytest.mark.parametrize(("fault", "before"), [(Delay(10), None), (DelayReply(10), "ready")])
async def test_a_delay_stands_before_the_work_or_before_the_answer(store, clock, fault, before):
    job = new()
    calling = asyncio.create_task(Faulty(store, lambda name, args: fault, clock=clock).jobs.enqueue([job]))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not calling.done()
    assert await state(store, job.id) == before

    clock.turn(10)
    await asyncio.wait_for(calling, 5)

    assert await state(store, job.id) == "ready"


async def test_a_twin_has_the_same_faults(store):
    twin = Faulty(store, lambda name, args: DropRequest() if name == "jobs.renew" else None).twin()
    await twin.open()

    with pytest.raises(StoreUnavailable):
        await twin.jobs.renew([], 1000)

    await twin.close()


@pytest.mark.parametrize("call", ["ping", "maintain"])
async def test_calls_of_the_store_itself_go_wrong_too(store, call):
    with pytest.raises(StoreUnavailable):
        await getattr(Faulty(store, lambda name, args: DropRequest() if name == call else None), call)()


async def test_a_hint_can_be_missed(store):
    faults = [DropRequest(), None]
    faulty = Faulty(store, lambda name, args: faults.pop(0) if name == "wakes" else None)
    hints = faulty.wakes(Topic.WORK)
    heard = asyncio.create_task(anext(hints))
    for _ in range(3):
        await asyncio.sleep(0)
    await put_in(store, new())
    while len(faults) == 2:
        await asyncio.sleep(0)
    assert not heard.done()

    await put_in(store, new())

    await asyncio.wait_for(heard, 5)
    assert faults == []
    await hints.aclose()
