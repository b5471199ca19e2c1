"""What is too large or malformed is refused at the edge."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from packhorse.audit.audit import STREAM as AUDIT
from packhorse.errors import (
    InvalidArguments,
    InvalidInput,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
    TooManyItems,
)
from packhorse.jobs.children import COLLECT
from packhorse.model import limits
from packhorse.model.event import LIFECYCLE
from packhorse.schedules.failure_events import STREAM
from packhorse.system_queue import SYSTEM_QUEUE


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=60))
def test_printable_text_is_a_name(text):
    assume(not text.startswith("packhorse."))
    limits.name("task", text)
    limits.key("lane", text)


@pytest.mark.parametrize("text", ["", "\n", "a\0", "a\x1f", "\x7f", "\ud800", "a\udfffb", None, 5, b"name", ["a"]])
def test_text_that_a_store_could_not_hold_is_no_name(text):
    with pytest.raises(InvalidName):
        limits.name("task", text)
    with pytest.raises(InvalidName):
        limits.key("lane", text)


def test_names_and_keys_are_measured_in_bytes():
    limits.name("queue", "x" * 255)
    limits.name("queue", "ü" * 127)
    limits.key("lane", "x" * 512)
    for refuse in (lambda: limits.name("queue", "x" * 256), lambda: limits.name("queue", "ü" * 128)):
        with pytest.raises(InvalidName):
            refuse()
    with pytest.raises(InvalidName):
        limits.key("lane", "x" * 513)


def test_a_refusal_names_the_thing_and_shows_no_more_than_a_line():
    with pytest.raises(InvalidName, match="queue") as refusal:
        limits.name("queue", "\ud800" * 10_000)
    assert len(str(refusal.value)) < 200
    str(refusal.value).encode()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60))
def test_utf8_text_without_nul_can_be_stored(text):
    limits.text("payload", text.encode(), 240)


@pytest.mark.parametrize("data", [b"\0", b"a\0b", b"\xff", b"\xed\xa0\x80", "text", None, bytearray(b"{}")])
def test_what_is_no_utf8_text_is_refused(data):
    with pytest.raises(InvalidArguments):
        limits.text("payload", data, 100)


def test_text_over_its_cap_is_refused_with_its_size():
    limits.text("result", b"x" * 100, 100)
    with pytest.raises(PayloadTooLarge) as refusal:
        limits.text("result", b"x" * 101, 100)
    assert (refusal.value.what, refusal.value.size, refusal.value.cap) == ("result", 101, 100)


@pytest.mark.parametrize("value", [0, 11, True, 5.0, "5", None])
def test_only_whole_numbers_in_range_are_within(value):
    limits.within("limit", 1, 1, 10)
    limits.within("limit", 10, 1, 10)
    with pytest.raises(InvalidOption):
        limits.within("limit", value, 1, 10)


@pytest.mark.parametrize("value", [-1, limits.MAX_TIME_US + 1, 1.5, True, "now", None])
def test_what_is_no_moment_before_2100_is_refused(value):
    limits.moment("at", 0)
    limits.moment("at", limits.MAX_TIME_US)
    with pytest.raises(InvalidTime):
        limits.moment("at", value)


@pytest.mark.parametrize("value", [999, limits.MAX_DURATION_US + 1, 1e6, False, None])
def test_what_is_no_span_up_to_a_hundred_years_is_refused(value):
    limits.span("lease", 1000, 1000)
    limits.span("lease", limits.MAX_DURATION_US, 1000)
    with pytest.raises(InvalidTime):
        limits.span("lease", value, 1000)


def test_more_items_than_the_cap_are_refused():
    limits.items("jobs", range(500))
    with pytest.raises(TooManyItems) as refusal:
        limits.items("jobs", range(501))
    assert (refusal.value.count, refusal.value.cap) == (501, 500)


def test_every_refusal_is_invalid_input_and_a_value_error():
    for kind in (InvalidName, InvalidOption, InvalidTime, InvalidArguments, PayloadTooLarge, TooManyItems):
        assert issubclass(kind, InvalidInput)
        assert issubclass(kind, ValueError)


@pytest.mark.parametrize("what", ["queue", "task", "stream"])
def test_names_that_begin_as_our_own_do_are_refused(what):
    with pytest.raises(InvalidName, match="kept for Packhorse itself"):
        limits.name(what, "packhorse.mine")
    limits.name(what, "packhorse")
    limits.name(what, "my.packhorse.jobs")


def test_our_own_names_are_names_but_not_for_users():
    limits.name("task", COLLECT)
    limits.name("queue", SYSTEM_QUEUE)
    for stream in (AUDIT, LIFECYCLE, STREAM):
        limits.name("stream", stream)
        with pytest.raises(InvalidName, match="kept for Packhorse itself"):
            limits.not_reserved("stream", stream)
    limits.not_reserved("stream", "news")
