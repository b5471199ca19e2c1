"""How long to wait before the next try."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packhorse.errors import InvalidOption, InvalidTime
from packhorse.model import limits
from packhorse.model.backoff import Backoff, checked, constant, exponential
from packhorse.model.outcome import Again

SECOND = limits.SECOND
EVEN = 0.5  # the chance that leaves a delay where it is


def delays(backoff: Backoff, retries: int, chance: float = EVEN) -> list[float]:
    return [backoff.delay(retry, chance) / SECOND for retry in range(1, retries + 1)]


def test_exponential_delays_double():
    assert delays(exponential(1), 5) == [1, 2, 4, 8, 16]
    assert delays(exponential(10), 3) == [10, 20, 40]
    assert delays(exponential("500ms"), 3) == [0.5, 1, 2]


def test_constant_delays_stay():
    assert delays(constant("30s"), 4) == [30, 30, 30, 30]


def test_delays_stop_at_the_cap():
    assert delays(exponential(10, cap="1m"), 5) == [10, 20, 40, 60, 60]
    assert delays(exponential(1), 20)[-1] == 3600


def test_a_base_above_the_cap_is_the_cap():
    assert delays(exponential("1h", cap="1m"), 2) == [60, 60]


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_jitter_stays_in_its_band(retry, jitter, chance):
    plain = exponential(1, jitter=0).delay(retry, EVEN)
    spread = exponential(1, jitter=jitter).delay(retry, chance)
    assert plain * (1 - jitter) - 1 <= spread <= plain * (1 + jitter) + 1


def test_jitter_reaches_both_ends_of_its_band():
    backoff = exponential(10, jitter=0.1)
    assert (backoff.delay(1, 0.0), backoff.delay(1, 1.0)) == (9 * SECOND, 11 * SECOND)


def test_without_jitter_chance_does_not_matter():
    assert {constant(5).delay(1, chance) for chance in (0.0, 0.3, 1.0)} == {5 * SECOND}


@pytest.mark.parametrize("retry", [30, 1_000, 1_025, 100_000, 2**31])
def test_huge_retry_counts_stay_at_the_cap(retry):
    assert exponential(1, cap="1h").delay(retry, EVEN) == 3600 * SECOND
    assert constant(7).delay(retry, EVEN) == 7 * SECOND


@pytest.mark.parametrize("retry", [1, 32, 33, 34, 60, 1_000, 100_000])
def test_without_a_cap_every_delay_is_one_that_a_store_takes(retry):
    Again(delay=exponential(1, cap=None, jitter=0).delay(retry, EVEN))
    Again(delay=exponential(1, cap=None, jitter=0.1).delay(retry, 1.0))


@pytest.mark.parametrize("retry", [1, 10, 2_000])
def test_no_base_is_no_delay(retry):
    assert exponential(0).delay(retry, EVEN) == 0


def test_delays_are_whole_microseconds():
    assert all(type(exponential(1).delay(retry, 0.123)) is int for retry in range(1, 50))


@pytest.mark.parametrize("jitter", [-0.1, 1.1, float("nan")])
def test_a_jitter_that_is_no_share_is_refused(jitter):
    with pytest.raises(InvalidOption):
        exponential(1, jitter=jitter)
    with pytest.raises(InvalidOption):
        constant(1, jitter=jitter)


def test_a_delay_that_is_no_duration_is_refused():
    with pytest.raises(InvalidTime):
        exponential("soon")
    with pytest.raises(InvalidTime):
        constant(-1)


@pytest.mark.parametrize("options", [{"factor": -1}, {"factor": float("nan")}, {"factor": float("inf")}, {"jitter": 2}])
def test_a_backoff_that_makes_no_sense_is_refused_as_it_is_made(options):
    with pytest.raises(InvalidOption):
        Backoff(1, **options)


@pytest.mark.parametrize("options", [{"base": -1}, {"base": 1.5}, {"base": 1, "cap": -1}])
def test_times_that_no_store_takes_are_refused(options):
    with pytest.raises(InvalidTime):
        Backoff(**options)


@pytest.mark.parametrize("given", [None, 5, "1s", exponential])
def test_what_is_no_backoff_is_refused_with_a_word_on_how_to_make_one(given):
    with pytest.raises(InvalidOption, match="exponential"):
        checked(given)
    assert checked(constant(1)) == constant(1)
