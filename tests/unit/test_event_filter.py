"""Names and positions of events as users write them."""

from typing import Any

import pytest

from packhorse.errors import InvalidName, InvalidOption
from packhorse.events.event import JobEvent, JobEventName
from packhorse.events.filter import event_filter
from packhorse.events.position import LogPosition, parse_position


def event(name: str, **fields: Any) -> JobEvent:
    return JobEvent(name=JobEventName(name), job_id="", at=None, **fields)


def test_no_names_stand_for_all():
    wanted = event_filter((), None, None)
    assert all(wanted.wants(event(name)) for name in JobEventName)


@pytest.mark.parametrize(("alias", "name"), [("active", "claimed"), ("completed", "done"), ("stalled", "lost")])
def test_words_of_bullmq_with_the_same_meaning_are_names(alias, name):
    wanted = event_filter((alias,), None, None)
    assert wanted.wants(event(name))
    assert not wanted.wants(event("dead"))


def test_failed_is_dead_or_again_with_an_error():
    wanted = event_filter(("failed",), None, None)
    assert wanted.wants(event("dead"))
    assert wanted.wants(event("again", error_type="ValueError"))
    assert not wanted.wants(event("again"))
    assert not wanted.wants(event("done"))


def test_failed_beside_again_takes_every_again():
    assert event_filter(("failed", "again"), None, None).wants(event("again"))


def test_queue_and_task_must_be_those_of_the_job():
    wanted = event_filter(("dead",), "email", "send")
    assert wanted.wants(event("dead", queue="email", task="send"))
    assert not wanted.wants(event("dead", queue="email", task="other"))
    assert not wanted.wants(event("dead", queue="sms", task="send"))
    assert not wanted.wants(event("dead"))


def test_events_of_our_own_jobs_come_only_if_their_queue_is_named():
    own = event("dead", queue="packhorse.system")
    assert not event_filter((), None, None).wants(own)
    assert event_filter((), "packhorse.system", None).wants(own)


@pytest.mark.parametrize(
    "name",
    ["", "Dead", "dead ", "delayed", "progress", "held", "dead\0", "\udc80", "x" * 10_000, None, 5, ["dead"], b"dead"],
)
def test_an_unknown_name_is_refused_with_the_names_there_are(name):
    with pytest.raises(InvalidOption, match=r"enqueued, claimed, done, .*, active, completed, stalled, failed"):
        event_filter(("dead", name), None, None)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 5, b"mail"])
def test_a_hostile_queue_or_task_is_refused(name):
    with pytest.raises(InvalidName):
        event_filter((), name, None)
    with pytest.raises(InvalidName):
        event_filter((), None, name)


def test_a_position_is_text_that_is_read_back():
    for position in (LogPosition(1), LogPosition(8812, 3), LogPosition(2**53 - 1, 2500)):
        assert parse_position(str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["", "8812", "8812.", ".3", "0.1", "-1.0", "1.-1", "1.0\n", " 1.0", "1e3.0", "٨.٣", "9" * 40 + ".0", "9007199254740992.0",
     "1.00000000", "latest", 8812.3, b"1.0", (1, 0)],
)  # fmt: skip
def test_what_is_no_position_is_refused(text):
    with pytest.raises(InvalidOption, match="position"):
        parse_position(text)
