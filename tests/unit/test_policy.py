"""Policies, and what user code raises on purpose."""

import pickle
from datetime import timedelta

import msgspec
import pytest

from packhorse.engine.policy import Policy
from packhorse.engine.signals import Cancel, Fail, Retry, Snooze
from packhorse.errors import InvalidOption, InvalidTime, PackhorseError
from packhorse.model import limits
from packhorse.model.backoff import exponential
from packhorse.model.job import KEEP_DEAD, KEEP_DONE
from packhorse.model.randomness import SYSTEM_RANDOMNESS

SECOND = limits.SECOND


def test_the_defaults_are_those_of_the_book():
    default = Policy()
    assert default.attempts == 3
    assert default.backoff == exponential(1, cap="1h", jitter=0.1)
    assert default.timeout is None
    assert (default.retry_on, default.dead_on) == ((), ())
    assert (default.keep_done, default.keep_dead) == (KEEP_DONE, KEEP_DEAD)


def test_a_policy_does_not_change():
    policy = Policy()
    with pytest.raises(AttributeError):
        policy.attempts = 5  # type: ignore[misc]
    assert msgspec.structs.replace(policy, attempts=5).attempts == 5


@pytest.mark.parametrize("attempts", [1, 1_000_000])
def test_attempts_within_bounds_are_taken(attempts):
    assert Policy(attempts=attempts).attempts == attempts


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0}, {"attempts": -1}, {"attempts": 1_000_001}, {"attempts": 2.0}, {"attempts": True},
        {"attempts": None},
        {"retry_on": [ValueError]}, {"retry_on": ValueError}, {"retry_on": (ValueError("x"),)}, {"retry_on": (int,)},
        {"dead_on": ("ValueError",)}, {"dead_on": None}, {"dead_on": ((ValueError,),)},
        {"retry_on": (ValueError, OSError), "dead_on": (OSError,)},
        {"backoff": 5}, {"backoff": None}, {"backoff": "exponential"},
        {"keep_done": 5}, {"keep_dead": None},
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidOption):
        Policy(**options)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"timeout": 1.5}])
def test_times_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidTime):
        Policy(**options)


def test_classes_that_overlap_by_inheritance_are_fine():
    policy = Policy(retry_on=(ConnectionError,), dead_on=(OSError,), timeout=1)
    assert policy.timeout == 1


@pytest.mark.parametrize(
    ("given", "micros"),
    [("20s", 20 * SECOND), (5, 5 * SECOND), (0.5, SECOND // 2), (timedelta(minutes=1), 60 * SECOND), (0, 0)],
)
@pytest.mark.parametrize("kind", [Retry, Snooze])
def test_a_delay_is_read_when_the_signal_is_made(kind, given, micros):
    assert kind(given).delay == kind(delay=given).delay == micros


def test_a_retry_may_leave_the_delay_to_the_backoff():
    assert Retry().delay is None


@pytest.mark.parametrize("delay", ["soon", -1, True, object()])
@pytest.mark.parametrize("kind", [Retry, Snooze])
def test_a_delay_that_is_none_is_refused(kind, delay):
    with pytest.raises(InvalidTime):
        kind(delay)


@pytest.mark.parametrize(
    "signal",
    [Retry(), Retry("20s"), Retry(delay=2.5), Snooze(delay="5m"), Cancel(), Cancel(why="because"), Fail(), Fail("no")],
)
def test_signals_survive_pickling(signal):
    again = pickle.loads(pickle.dumps(signal))
    assert type(again) is type(signal)
    assert again.__dict__ == signal.__dict__
    assert str(again) == str(signal)


def test_signals_are_plain_exceptions():
    for kind in (Retry, Snooze, Cancel):
        assert issubclass(kind, Exception)
        assert not issubclass(kind, PackhorseError)
    assert (str(Cancel("no longer wanted")), Cancel("x").why) == ("no longer wanted", "x")


def test_chance_is_a_share():
    drawn = {SYSTEM_RANDOMNESS() for _ in range(1000)}
    assert len(drawn) > 900
    assert all(0 <= number < 1 for number in drawn)
