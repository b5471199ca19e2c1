"""Append-only logs of events."""

import asyncio

import pytest

from packhorse.errors import InvalidInput, InvalidName
from packhorse.model import event
from packhorse.model.effect import Publish
from packhorse.model.event import LIFECYCLE, Event, StreamBounds
from tests.factories import SECOND, Done, changes, new, put_in, run


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


async def test_answer_the_offsets_of_the_first_and_the_last_event_that_a_stream_keeps(store):
    await store.streams.publish([Publish("news", b"1") for _ in range(5)] + [Publish("other", b"1")])
    await store.streams.trim("news", 3, 10)
    await put_in(store, new())
    await put_in(store, new())

    assert await store.streams.bounds("news") == StreamBounds(3, 5)
    assert await store.streams.bounds("other") == StreamBounds(1, 1)
    assert await store.streams.bounds(LIFECYCLE) == StreamBounds(1, 2)


async def test_the_bounds_of_a_stream_that_was_never_written_are_one_and_zero(store):
    assert await store.streams.bounds("news") == StreamBounds(1, 0)
    assert await store.streams.bounds(LIFECYCLE) == StreamBounds(1, 0)


async def test_the_bounds_of_a_stream_whose_events_were_all_trimmed_are_the_next_offset_and_the_last_one_given(store):
    await store.streams.publish([Publish("news", b"1") for _ in range(3)])

    await store.streams.trim("news", 4, 10)

    assert await store.streams.bounds("news") == StreamBounds(4, 3)


async def test_remove_the_oldest_events_below_an_offset_at_most_as_many_as_the_limit_and_answer_how_many_were_removed(
    store,
):
    await store.streams.publish([Publish("news", b"1") for _ in range(10)] + [Publish("other", b"1")])

    assert await store.streams.trim("news", 8, 4) == 4

    assert [event.offset for event in await store.streams.read("news")] == [5, 6, 7, 8, 9, 10]
    assert [event.offset for event in await store.streams.read("other")] == [1]
    assert await store.streams.trim("never", 8, 4) == 0


async def test_an_event_at_the_offset_or_above_it_stays(store):
    await store.streams.publish([Publish("news", b"1") for _ in range(10)])

    assert await store.streams.trim("news", 8, 1000) == 7
    assert await store.streams.trim("news", 0, 1000) == 0

    assert [event.offset for event in await store.streams.read("news")] == [8, 9, 10]


async def test_a_trim_that_is_repeated_removes_what_is_left_below_its_offset_and_then_nothing(store, second):
    await store.streams.publish([Publish("news", b"1") for _ in range(10)])

    removed = [await each.streams.trim("news", 8, 3) for each in (store, second) * 2]

    assert removed == [3, 3, 1, 0]
    assert await store.streams.bounds("news") == StreamBounds(8, 10)


async def test_two_who_trim_at_once_remove_each_event_once(store, second):
    await store.streams.publish([Publish("news", b"1") for _ in range(200)])

    removed = await asyncio.gather(*(each.streams.trim("news", 151, 20) for each in (store, second) * 10))

    assert sum(removed) == (await store.streams.bounds("news")).first - 1 <= 150
    assert [event.offset for event in await store.streams.read("news", after=150)] == list(range(151, 201))


async def test_offsets_of_a_trimmed_stream_go_on_after_the_last_one_given(store):
    for last in (3, 6):
        await store.streams.publish([Publish("news", b"1") for _ in range(3)])
        await store.streams.trim("news", 1000, 1000)
        assert await store.streams.bounds("news") == StreamBounds(last + 1, last)

    assert await store.streams.publish([Publish("news", b"1")]) == [7]
    assert [event.offset for event in await store.streams.read("news")] == [7]


async def test_the_newest_event_of_the_lifecycle_of_jobs_stays(store):
    for _ in range(5):
        await put_in(store, new())

    assert await store.streams.trim(LIFECYCLE, 3, 1000) == 2
    assert await store.streams.trim(LIFECYCLE, 1000, 1000) == 2

    assert await store.streams.bounds(LIFECYCLE) == StreamBounds(5, 5)
    await put_in(store, new())
    assert [event.offset for event in await store.streams.read(LIFECYCLE)] == [5, 6]


@pytest.mark.parametrize(("most", "offsets"), [(4, [7, 8, 9, 10]), (400, list(range(1, 11)))])
async def test_of_the_lifecycle_of_jobs_only_so_many_events_stay(store, monkeypatch, most, offsets):
    monkeypatch.setattr(event, "LIFECYCLE_MAX_EVENTS", most)
    for _ in range(10):
        await put_in(store, new())

    await store.jobs.prune(10)

    assert [each.offset for each in await store.streams.read(LIFECYCLE)] == offsets


async def test_of_the_lifecycle_of_jobs_the_newest_events_stay_up_to_ten_thousand_and_about_sixteen_mebibytes(
    store, monkeypatch
):
    assert (event.LIFECYCLE_MAX_EVENTS, event.LIFECYCLE_MAX_BYTES) == (10_000, 16 << 20)
    monkeypatch.setattr(event, "LIFECYCLE_MAX_BYTES", 3000)
    for _ in range(10):
        await put_in(store, *(new() for _ in range(50)))  # about 800 bytes

    await store.jobs.prune(10)
    assert [each.offset for each in await store.streams.read(LIFECYCLE)] == [8, 9, 10]

    monkeypatch.setattr(event, "LIFECYCLE_MAX_BYTES", 1)
    await store.jobs.prune(10)
    assert [each.offset for each in await store.streams.read(LIFECYCLE)] == [10]


@pytest.mark.parametrize(("stream", "below", "limit"), [("", 1, 1), ("news", -1, 1), ("news", 1, 0), ("news", 1, 1001)])
async def test_a_trim_of_no_stream_or_without_bounds_is_refused(store, stream, below, limit):
    with pytest.raises(InvalidInput):
        await store.streams.trim(stream, below, limit)


async def test_a_lifecycle_that_is_far_too_long_is_cut_while_prune_says_more(store, monkeypatch):
    monkeypatch.setattr(event, "LIFECYCLE_MAX_EVENTS", 10)
    for _ in range(13):
        await asyncio.gather(*(store.jobs.cancel([job]) for job in await put_in(store, *(new() for _ in range(99)))))

    last = (await store.streams.bounds(LIFECYCLE)).last
    while (await store.jobs.prune(1000)).more:
        pass

    assert last > 1010
    assert await store.streams.bounds(LIFECYCLE) == StreamBounds(last - 9, last)
