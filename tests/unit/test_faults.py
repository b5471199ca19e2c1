"""A store whose calls go wrong on purpose."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packhorse.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from packhorse.model.effect import Publish
from packhorse.stores import open_store
from packhorse.stores.contract import Store, Topic
from packhorse.testing.faults import Delay, DelayReply, DropReply, DropRequest, Faulty, RaiseError
from tests.factories import new, put_in, state


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
        await Faulty(store, lambda name, args: RaiseError(error)).jobs.enqueue([job])

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


async def test_a_clone_has_the_same_faults(store):
    clone = Faulty(store, lambda name, args: DropRequest() if name == "jobs.renew" else None).clone()
    await clone.open()

    with pytest.raises(StoreUnavailable):
        await clone.jobs.renew([], 1000)

    await clone.close()


@pytest.mark.parametrize("call", ["ping", "maintain"])
async def test_calls_of_the_store_itself_go_wrong_too(store, call):
    with pytest.raises(StoreUnavailable):
        await getattr(Faulty(store, lambda name, args: DropRequest() if name == call else None), call)()


async def test_a_hint_can_be_missed(store):
    faults = [DropRequest(), None]
    faulty = Faulty(store, lambda name, args: faults.pop(0) if name == "wakes" else None)
    hints = faulty.wakes(Topic.WORK)
    next_hint = asyncio.create_task(anext(hints))
    for _ in range(3):
        await asyncio.sleep(0)
    await put_in(store, new())
    while len(faults) == 2:
        await asyncio.sleep(0)
    assert not next_hint.done()

    await put_in(store, new())

    await asyncio.wait_for(next_hint, 5)
    assert faults == []
    await hints.aclose()


async def test_a_hint_for_a_reader_of_a_stream_can_be_missed(store):
    decided: list[tuple[str, tuple[object, ...]]] = []

    def decide(name: str, args: tuple[object, ...]) -> DropRequest | None:
        if name == "wakes":
            decided.append((name, args))
        return DropRequest() if name == "wakes" and len(decided) == 2 else None

    hints = Faulty(store, decide).streams.wakes("news")
    await anext(hints)
    next_hint = asyncio.create_task(anext(hints))
    await store.streams.publish([Publish("news", b"1")])
    async with asyncio.timeout(5):
        while len(decided) < 2:
            await asyncio.sleep(0)
    assert not next_hint.done()

    await store.streams.publish([Publish("news", b"1")])

    await asyncio.wait_for(next_hint, 5)
    assert decided == [("wakes", ("news",))] * 3
    await hints.aclose()
