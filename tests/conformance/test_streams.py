"""Append-only logs of events."""

import asyncio

import pytest

from packhorse.errors import InvalidName
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event
from tests.making import SECOND, Done, changes, new, put_in, run


async def test_append_events_all_or_none_and_answer_their_offsets(store, clock):
    offsets = await store.streams.publish([Publish("news", b"1", "k"), Publish("other", b"2"), Publish("news", b"3")])

    assert offsets == [1, 1, 2]
    now = clock.now()
    assert await store.streams.read("news") == [Event("news", 1, now, b"1", "k"), Event("news", 2, now, b"3")]
    assert await store.streams.read("other") == [Event("other", 1, now, b"2")]


async def test_offsets_of_a_stream_begin_at_one_and_rise_by_one(store, clock):
    offsets = []
    for _ in range(3):
        offsets += await store.streams.publish([Publish("news", b"1"), Publish("news", b"1")])
        clock.turn(SECOND)
    await put_in(store, new())

    await run(store, Done(), Publish("news", b"1"))

    assert offsets == [1, 2, 3, 4, 5, 6]
    assert [event.offset for event in await store.streams.read("news")] == [1, 2, 3, 4, 5, 6, 7]


async def test_the_stream_of_the_lifecycle_of_jobs_takes_no_events_from_outside(store):
    with pytest.raises(InvalidName):
        await store.streams.publish([Publish("news", b"1"), Publish(LIFECYCLE, b"1")])

    assert await changes(store) == []
    assert await store.streams.read("news") == []


async def test_answer_the_events_after_an_offset_oldest_first(store):
    await store.streams.publish([Publish("news", b"%d" % number) for number in range(1, 11)])

    middle = await store.streams.read("news", after=3, limit=4)

    assert [(event.offset, event.data) for event in middle] == [(4, b"4"), (5, b"5"), (6, b"6"), (7, b"7")]
    assert [event.offset for event in await store.streams.read("news", after=8)] == [9, 10]
    assert await store.streams.read("news", after=10) == []
    assert await store.streams.read("news", after=99) == []


async def test_a_stream_that_never_was_is_empty(store):
    await store.streams.publish([Publish("news", b"1")])

    assert await store.streams.read("new") == []
    assert await store.streams.read("newss") == []


async def test_publishing_nothing_is_no_trouble(store):
    assert await store.streams.publish([]) == []


async def test_events_of_one_moment_are_all_there(store):
    for _ in range(4):
        await store.streams.publish([Publish("news", b"%d" % number) for number in range(300)])

    events = [event for start in (0, 1000) for event in await store.streams.read("news", after=start, limit=1000)]

    assert [event.offset for event in events] == list(range(1, 1201))
    assert [event.data for event in events] == [b"%d" % number for number in range(300)] * 4


async def test_the_key_of_an_event_is_text_or_none(store):
    await store.streams.publish([Publish("news", b"", None), Publish("news", b"", "key")])

    assert [(event.key, event.data) for event in await store.streams.read("news")] == [(None, b""), ("key", b"")]


async def test_two_who_publish_at_once_share_no_offset(store, second):
    answers = await asyncio.gather(
        *(
            place.streams.publish([Publish("news", b"1"), Publish("other", b"1"), Publish("news", b"2")])
            for place in (store, second) * 10
        )
    )

    assert sorted(offset for one, _, two in answers for offset in (one, two)) == list(range(1, 41))
    assert all(two == one + 1 for one, _, two in answers)
    assert [event.data for event in await store.streams.read("news")] == [b"1", b"2"] * 20
