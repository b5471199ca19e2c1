"""Outcomes and effects refuse what contradicts itself."""

import pytest

from packhorse.errors import (
    InvalidArguments,
    InvalidInput,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
)
from packhorse.model import limits
from packhorse.model.effect import Publish, Put
from packhorse.model.job import Retention
from packhorse.model.outcome import Again, Done, Held, On, Wait
from packhorse.model.reason import WaitReason

FREE = [r for r in WaitReason if r not in (WaitReason.LANE, WaitReason.CHILDREN, WaitReason.SIGNAL)]


@pytest.mark.parametrize("reason", FREE)
def test_most_reasons_to_wait_stand_alone(reason):
    assert Wait(reason, detail="why").reason is reason
    with pytest.raises(InvalidOption):
        Wait(reason, children=1)
    with pytest.raises(InvalidOption):
        Wait(reason, on=On("k", "a"))


def test_only_the_store_puts_a_job_behind_its_lane():
    with pytest.raises(InvalidOption, match="lane"):
        Wait(WaitReason.LANE)


def test_waiting_for_children_names_how_many():
    assert Wait(WaitReason.CHILDREN, children=3).children == 3
    for wrong in ({}, {"children": -1}, {"children": 1, "on": On("k", "a")}, {"children": limits.CHILDREN + 1}):
        with pytest.raises(InvalidOption):
            Wait(WaitReason.CHILDREN, **wrong)


def test_waiting_for_a_signal_names_a_record():
    assert Wait(WaitReason.SIGNAL, on=On("k", "a", after=7)).on == On("k", "a", 7)
    for wrong in ({}, {"on": On("k", "a"), "children": 1}):
        with pytest.raises(InvalidOption):
            Wait(WaitReason.SIGNAL, **wrong)


@pytest.mark.parametrize(("kind", "key"), [("", "a"), ("k", ""), ("k\n", "a"), ("k", "x" * 513)])
def test_a_record_that_no_store_may_hold_is_not_waited_for(kind, key):
    with pytest.raises(InvalidName):
        On(kind, key)


@pytest.mark.parametrize("detail", ["a\0b", "x" * (limits.DETAIL + 1), "\ud800"])
def test_a_detail_that_no_store_may_hold_is_refused(detail):
    with pytest.raises(InvalidInput):
        Wait(WaitReason.LIMIT, detail=detail)


@pytest.mark.parametrize("step", [0, -1, 2**31, True, 1.0])
def test_steps_are_counted_from_one(step):
    assert Held(1).step == 1
    with pytest.raises(InvalidOption):
        Held(step)


@pytest.mark.parametrize("delay", [-1, 1.5, limits.MAX_DURATION_US + 1, None])
def test_a_delay_is_a_span(delay):
    with pytest.raises(InvalidTime):
        Again(delay)


def test_a_result_is_text_up_to_its_cap():
    assert Done().result is None
    assert Done(b'{"a":1}').result == b'{"a":1}'
    with pytest.raises(InvalidArguments):
        Done(b"\xff")
    with pytest.raises(PayloadTooLarge):
        Done(b"x" * (limits.RESULT + 1))


@pytest.mark.parametrize(
    ("count", "age", "error"), [(-1, 0, InvalidOption), (0, -1, InvalidTime), (1.5, 0, InvalidOption)]
)
def test_a_keep_has_a_count_and_an_age(count, age, error):
    assert Retention(0, 0) == Retention(0, 0)
    with pytest.raises(error):
        Retention(count, age)


def test_a_put_names_a_record_by_valid_names_and_moments():
    assert Put("k", "a", None).value is None
    for wrong, error in (
        ({"kind": ""}, InvalidName),
        ({"key": "\0"}, InvalidName),
        ({"value": b"\0"}, InvalidArguments),
        ({"expect": -1}, InvalidOption),
        ({"expect": 2**53 + 1}, InvalidOption),
        ({"due": -1}, InvalidTime),
        ({"expires": limits.MAX_TIME_US + 1}, InvalidTime),
    ):
        with pytest.raises(error):
            Put(**({"kind": "k", "key": "a", "value": b"1"} | wrong))


def test_an_event_is_text_in_a_named_stream():
    assert Publish("s", b"1", "key").key == "key"
    for stream, data, key in (("", b"1", None), ("s", b"\xff", None), ("s", b"1", "")):
        with pytest.raises(InvalidInput):
            Publish(stream, data, key)
