"""What is asked for at enqueue, and what went wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import (
    InvalidArguments,
    InvalidId,
    InvalidName,
    InvalidOption,
    InvalidTime,
    PayloadTooLarge,
)
from packhorse.model import limits
from packhorse.model.job import NewJob, State, UniqueKey, Until, failure
from packhorse.model.page import Filter
from tests.factories import WORKER


def test_done_dead_and_cancelled_are_the_ends():
    assert {state for state in State if state.ended} == {State.DONE, State.DEAD, State.CANCELLED}


def test_a_new_job_has_an_id_of_its_own():
    assert NewJob(task="work").id != NewJob(task="work").id


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"task": ""}, InvalidName),
        ({"queue": "a\n"}, InvalidName),
        ({"id": b"short"}, InvalidId),
        ({"parent": b"short"}, InvalidId),
        ({"payload": b"\xff"}, InvalidArguments),
        ({"payload": b"x" * (limits.PAYLOAD + 1)}, PayloadTooLarge),
        ({"headers": b"x" * (limits.HEADERS + 1)}, PayloadTooLarge),
        ({"priority": -1}, InvalidOption),
        ({"priority": 8192}, InvalidOption),
        ({"delay": -1}, InvalidTime),
        ({"delay": 0.5}, InvalidTime),
        ({"at": limits.MAX_TIME_US + 1}, InvalidTime),
        ({"lane": ""}, InvalidName),
        ({"lane": "a", "lane_limit": 0}, InvalidOption),
        ({"lane": "a", "lane_limit": limits.LANE_LIMIT + 1}, InvalidOption),
        ({"children": -1}, InvalidOption),
        ({"children": limits.CHILDREN + 1}, InvalidOption),
        ({"tenant": "\0"}, InvalidName),
    ],
)
def test_options_outside_their_range_are_refused(option, error):
    with pytest.raises(error):
        NewJob(**({"task": "work"} | option))


def test_a_unique_window_has_a_length_and_the_other_scopes_have_none():
    assert UniqueKey("k", Until.WINDOW, 1).window == 1
    assert UniqueKey("k").until is Until.FINISHED
    for until, window in ((Until.WINDOW, 0), (Until.STARTED, 1), (Until.FINISHED, 1)):
        with pytest.raises(InvalidOption):
            UniqueKey("k", until, window)
    with pytest.raises(InvalidName):
        UniqueKey("")


texts = st.text(st.characters(), max_size=50)


@given(texts, texts, texts)
def test_a_failure_can_be_stored_whatever_its_texts(kind, message, trace):
    made = failure(kind, message, trace)
    for text in (made.type, made.message, made.traceback):
        assert b"\0" not in text.encode()


@pytest.mark.parametrize("letter", ["x", "ü", "🐴", "\ud800", "\0"])
def test_the_texts_of_a_failure_fit_their_caps(letter):
    made = failure(letter * 300, letter * limits.MESSAGE, letter * limits.TRACEBACK)
    assert len(made.type.encode()) <= limits.NAME
    assert len(made.message.encode()) <= limits.MESSAGE
    assert len(made.traceback.encode()) <= limits.TRACEBACK


def test_a_long_traceback_loses_its_middle():
    made = failure("E", "", "first\n" + "x\n" * limits.TRACEBACK + "last")
    assert made.traceback.startswith("first\n")
    assert made.traceback.endswith("last")
    assert "\n...\n" in made.traceback


def test_a_filter_fits_what_it_names(some_job):
    assert Filter().fits(some_job)
    for name, value in (
        ("queue", some_job.queue), ("state", some_job.state), ("task", some_job.task), ("lane", some_job.lane),
        ("tenant", some_job.tenant), ("parent", some_job.parent), ("enqueued_since", some_job.enqueued_at),
    ):  # fmt: skip
        assert Filter(**{name: value}).fits(some_job), name
    for name, value in (
        ("queue", "other"), ("state", State.DONE), ("task", "other"), ("lane", "other"), ("tenant", "other"),
        ("parent", bytes(16)), ("enqueued_since", some_job.enqueued_at + 1), ("reason", "lane"),
    ):  # fmt: skip
        assert not Filter(**{name: value}).fits(some_job), name


@pytest.fixture
def some_job():
    from packhorse.model.job import StoredJob

    return StoredJob(
        id=b"i" * 16, task="work", queue="default", payload=b"{}", headers=b"{}", priority=10, enqueued_at=7,
        state=State.READY, since=7, lane="lane", tenant="tenant", parent=WORKER,
    )  # fmt: skip
