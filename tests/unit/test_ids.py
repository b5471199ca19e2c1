"""Ids: 16 bytes inside, the text of a UUID outside."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import InvalidId, InvalidName
from packhorse.model.ids import check_id, chosen, chosen_id, id_text, new_id, new_ids, new_token, parse_id
from packhorse.testing import TurnedClock

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20)


def test_a_fresh_id_is_a_uuid_of_version_7():
    made = uuid.UUID(bytes=new_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_a_fresh_id_begins_with_its_millisecond():
    clock = TurnedClock(1_700_000_000_123_999)
    assert int.from_bytes(new_id(lambda: clock.now() * 1000)[:6], "big") == 1_700_000_000_123


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_fresh_ids_of_different_microseconds_sort_by_time(start, later):
    clock = TurnedClock(start)
    first = new_id(lambda: clock.now() * 1000)
    clock.turn(later)
    assert first < new_id(lambda: clock.now() * 1000)


def test_fresh_ids_and_tokens_do_not_repeat():
    clock = TurnedClock()
    assert len({new_id(lambda: clock.now() * 1000) for _ in range(1000)}) == 1000
    assert len({new_token() for _ in range(1000)}) == 1000
    assert len(new_token()) == 16


def test_ids_made_together_are_all_different_and_in_order():
    made = new_ids(1000)
    assert len(set(made)) == 1000
    assert made == sorted(made)
    texts = [uuid.UUID(bytes=one) for one in made]
    assert {(text.version, text.variant) for text in texts} == {(7, uuid.RFC_4122)}
    assert new_ids(0) == []


@given(words, st.lists(words, max_size=3))
def test_a_chosen_id_is_always_the_same_and_a_uuid_of_version_8(namespace, parts):
    made = chosen_id(namespace, *parts)
    assert made == chosen_id(namespace, *parts)
    assert (uuid.UUID(bytes=made).version, uuid.UUID(bytes=made).variant) == (8, uuid.RFC_4122)


@pytest.mark.parametrize(
    ("left", "right"),
    [(("a", "bc"), ("ab", "c")), (("a",), ("a", "a")), (("a", "b"), ("b", "a")), (("ab",), ("a", "b"))],
)
def test_every_part_of_a_chosen_id_counts(left, right):
    assert chosen_id(*left) != chosen_id(*right)


def test_chosen_and_fresh_ids_are_distinguished():
    assert chosen(chosen_id("app", "llm:42"))
    assert not chosen(new_id())
    assert not chosen(uuid.uuid4().bytes)


@pytest.mark.parametrize("word", ["", "a\nb", "a\0b", "\ud800", "x" * 513])
def test_words_that_no_store_may_hold_choose_no_id(word):
    with pytest.raises(InvalidName):
        chosen_id("app", word)


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_id_leads_back_to_it(job):
    assert parse_id(id_text(job)) == job


@pytest.mark.parametrize("text", ["", "no id", "0" * 31, "g" * 32, None, 7, b"0" * 16])
def test_a_text_that_is_no_uuid_is_refused(text):
    with pytest.raises(InvalidId):
        parse_id(text)


@pytest.mark.parametrize("value", [b"", b"x" * 15, b"x" * 17, "x" * 16, bytearray(16), None, 16])
def test_what_is_not_16_bytes_is_refused(value):
    with pytest.raises(InvalidId):
        check_id(value)


def test_16_bytes_are_an_id():
    check_id(bytes(16))
