"""Hints for readers of streams. They come in real time, so these tests wait for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from packhorse.errors import InvalidName, StoreClosed
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE
from packhorse.stores.contract import Store
from tests.factories import Done, new, put_in, run, take

SOON = 10


@asynccontextmanager
async def reading(store: Store, stream: str) -> AsyncIterator["asyncio.Queue[int]"]:
    """Offsets of the events of a stream, read at each hint."""
    offsets: asyncio.Queue[int] = asyncio.Queue()
    begun = asyncio.Event()

    async def read() -> None:
        last = 0
        async with aclosing(store.streams.wakes(stream)) as hints:
            async for _ in hints:
                for event in await store.streams.read(stream, after=last):
                    offsets.put_nowait(event.offset)
                    last = event.offset
                begun.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), SOON)
    try:
        yield offsets
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def some(offsets: "asyncio.Queue[int]", count: int) -> list[int]:
    return [await asyncio.wait_for(offsets.get(), SOON) for _ in range(count)]


async def test_yield_at_once_and_then_whenever_a_stream_may_have_new_events_hints_may_be_missed_or_come_for_nothing(
    store,
):
    await store.streams.publish([Publish("news", b"1")])
    async with reading(store, "news") as offsets:
        assert await some(offsets, 1) == [1]
        for offset in range(2, 6):
            await store.streams.publish([Publish("news", b"1")])
            assert await some(offsets, 1) == [offset]


async def test_a_publish_by_another_process_wakes_the_readers_of_its_stream(store, second):
    async with reading(store, "news") as news, reading(store, "news") as same, reading(store, "other") as other:
        for number in (1, 2):
            await second.streams.publish([Publish("news", b"1")])
            assert await some(news, 1) == await some(same, 1) == [number]
            await second.streams.publish([Publish("other", b"1")])
            assert await some(other, 1) == [number]


async def test_an_event_of_a_settlement_wakes_the_readers_of_its_stream(store, second):
    await put_in(store, new())
    async with reading(store, "news") as offsets:
        await run(second, Done(), Publish("news", b"1"), Publish("news", b"2"))

        assert await some(offsets, 2) == [1, 2]


async def test_a_call_that_changes_jobs_wakes_the_readers_of_their_lifecycle(store, second):
    async with reading(store, LIFECYCLE) as offsets:
        await put_in(second, new())
        assert await some(offsets, 1) == [1]
        await take(second)
        assert await some(offsets, 1) == [2]


async def test_a_reader_of_a_trimmed_stream_is_woken_by_the_next_event(store, second):
    await store.streams.publish([Publish("news", b"1") for _ in range(3)])
    async with reading(store, "news") as offsets:
        assert await some(offsets, 3) == [1, 2, 3]
        await second.streams.trim("news", 4, 10)
        await second.streams.publish([Publish("news", b"1")])

        assert await some(offsets, 1) == [4]


async def test_readers_get_no_more_hints_once_the_store_is_closed(url, another):
    made = await another()
    hints = made.streams.wakes("news")
    await anext(hints)
    following = asyncio.ensure_future(anext(hints, None))
    await asyncio.sleep(0)  # lets the reader wait

    await made.close()

    assert await asyncio.wait_for(following, SOON) is None
    with pytest.raises(StoreClosed):
        await anext(made.streams.wakes("news"))


async def test_who_reads_again_after_the_last_reader_left_is_woken(store, second):
    for number in (1, 2, 3):
        async with reading(store, "news") as offsets:
            assert await some(offsets, number - 1) == list(range(1, number))
            await second.streams.publish([Publish("news", b"1")])
            assert await some(offsets, 1) == [number]


async def test_hints_for_what_is_no_name_of_a_stream_are_refused(store):
    with pytest.raises(InvalidName):
        store.streams.wakes("")
