"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import InvalidTime
from packhorse.model import limits
from packhorse.model.duration import micros


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0),
        (1, 1_000_000),
        (90, 90_000_000),
        (0.5, 500_000),
        (1e-6, 1),
        ("250us", 250),
        ("15ms", 15_000),
        ("90s", 90_000_000),
        ("5m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("2d", 172_800_000_000),
        ("1w", 604_800_000_000),
        ("1.5h", 5_400_000_000),
        ("0.1ms", 100),
        ("1h 30m", 5_400_000_000),
        ("5M", 300_000_000),
        (timedelta(days=1, seconds=1, microseconds=1), 86_401_000_001),
        (timedelta(0), 0),
    ],
)
def test_durations_mean_microseconds(written, meant):
    assert micros(written) == meant


@given(st.integers(0, limits.MAX_DURATION_US))
def test_a_timedelta_is_exact(whole):
    assert micros(timedelta(microseconds=whole)) == whole


@given(st.integers(0, limits.MAX_DURATION_US // limits.SECOND))
def test_whole_seconds_are_exact(seconds):
    assert micros(seconds) == micros(f"{seconds}s") == seconds * limits.SECOND


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "5", "s", "5x", "-5s", "5s later", "1e3s", "s5", ".5s", "5 minutes", None, True, False, [5], b"5s",
        -1, -0.5, float("nan"), float("inf"), float("-inf"), timedelta(seconds=-1), "101y", "40000d",
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(InvalidTime):
        micros(value)


@pytest.mark.parametrize(
    "value",
    [limits.MAX_DURATION_US, timedelta.max, 1e300, 1e308, "9" * 20 + "w", "9" * 400 + "s", 10**5000],
    ids=["seconds for micros", "timedelta", "float", "largest float", "text", "long text", "long number"],
)
def test_what_is_longer_than_a_hundred_years_is_refused(value):
    with pytest.raises(InvalidTime):
        micros(value)


def test_a_space_inside_a_number_is_refused():
    with pytest.raises(InvalidTime):
        micros("1 5m")
