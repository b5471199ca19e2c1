"""What an exception tells of an HTTP response, and what follows from it."""

from types import SimpleNamespace

import pytest

from packhorse.engine.policy import Policy
from packhorse.engine.response import MAX_WAIT_US, retry_after, status
from packhorse.model.outcome import Again, Dead
from tests.judging import BURIED, EXACT, SECOND, died, judged, retried

NOON = "Sun, 06 Nov 1994 12:00:00 GMT"
LATER = "Sun, 06 Nov 1994 12:00:30 GMT"
NOON_MICROS = 784_123_200 * SECOND


class Refused(Exception):
    """An error with whatever attributes a client gives it."""

    def __init__(self, **fields):
        super().__init__("refused")
        self.__dict__.update(fields)


def answer(**fields):
    return SimpleNamespace(**fields)


SHAPES = {
    "status": lambda number, headers: Refused(status=number, headers=headers),
    "status_code": lambda number, headers: Refused(status_code=number, headers=headers),
    "response.status": lambda number, headers: Refused(response=answer(status=number, headers=headers)),
    "response.status_code": lambda number, headers: Refused(response=answer(status_code=number, headers=headers)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_status_is_judged_alike_wherever_it_stands(shape):
    dead = {number for number in range(100, 600) if isinstance(judged(shape(number, {})), Dead)}
    assert dead == set(range(400, 500)) - {408, 425, 429}


@pytest.mark.parametrize("value", [None, True, "404", 404.0, 0, 4, 99, 600, 40_400, -404, [404], object()])
def test_what_is_no_status_is_passed_over(value):
    assert status(Refused(status=value)) is None
    assert status(Refused(status=value, response=answer(status_code=404))) == 404
    assert retried(judged(Refused(status=value)))


def test_a_status_of_the_error_itself_comes_first():
    assert status(Refused(status_code=503, response=answer(status_code=404))) == 503
    assert status(Refused(response=None)) is None


class Trap:
    """An object on which every look fails."""

    def __getattribute__(self, name):
        raise SystemExit(name)


class Tricky(int):
    """A number whose comparisons are code."""

    def __le__(self, other):
        raise RuntimeError

    __ge__ = __lt__ = __gt__ = __eq__ = __int__ = __index__ = __le__  # type: ignore[assignment]
    __hash__ = int.__hash__


def test_looking_never_raises():
    assert status(Refused(response=Trap(), status=Trap())) is None
    assert retry_after(Refused(response=Trap(), headers=Trap()), 0) is None
    assert retry_after(Refused(headers={"Retry-After": Trap()}), 0) is None
    assert retried(judged(Refused(response=Trap(), status=503, headers=Trap())))
    assert status(Refused(status=Tricky(404))) == 404


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("number", [408, 425, 429, 500, 503])
def test_retry_after_is_honoured(shape, number):
    assert retried(judged(shape(number, {"Retry-After": "20"})), 20 * SECOND)


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER", b"Retry-After"])
def test_the_name_of_the_header_has_no_case(name):
    assert retry_after(Refused(headers={"Other": "1", name: "7"}), None) == 7 * SECOND


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0), ("20", 20 * SECOND), (" 20 ", 20 * SECOND), (b"20", 20 * SECOND), (20, 20 * SECOND),
        ("1.5", 1_500_000), ("86400", MAX_WAIT_US), ("86401", MAX_WAIT_US), ("9" * 400, MAX_WAIT_US),
        ("-1", None), ("soon", None), ("", None), ("1e3", None), ("nan", None), ("inf", None), ("٣", None),
        (None, None), ([20], None),
    ],
)  # fmt: skip
def test_seconds_are_understood_and_nonsense_is_not(value, expected):
    assert retry_after(Refused(headers={"Retry-After": value}), None) == expected


def test_a_date_counts_from_the_date_of_the_response():
    headers = {"Retry-After": LATER, "Date": NOON}
    assert retry_after(Refused(headers=headers), None) == 30 * SECOND
    assert retry_after(Refused(headers=headers), 5) == 30 * SECOND


def test_a_date_alone_counts_from_now():
    error = Refused(status=503, headers={"Retry-After": LATER})
    assert retry_after(error, NOON_MICROS) == 30 * SECOND
    assert retry_after(error, NOON_MICROS + 60 * SECOND) == 0
    assert retry_after(error, None) is None
    assert retried(judged(error, now=NOON_MICROS), 30 * SECOND)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_WAIT_US),
        ("Sun, 06 Nov 1994 12:00:30 -0000", 30 * SECOND),
        ("Sun, 06 Nov 1994 13:00:30 +0100", 30 * SECOND),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Sun, 99 Nov 1994 12:00:30 GMT", None),
        ("Sun, 06 Nov 1994 12:00:30 +999999", None),
        ("tomorrow", None),
    ],
)
def test_odd_dates_are_bounded_or_passed_over(date, expected):
    assert retry_after(Refused(headers={"Retry-After": date}), NOON_MICROS) == expected


def test_a_broken_date_of_the_response_makes_a_date_mean_nothing():
    assert retry_after(Refused(headers={"Retry-After": LATER, "Date": "today"}), NOON_MICROS) is None


def test_a_server_can_lengthen_the_wait_but_not_shorten_it():
    waits = [judged(Refused(status=503, headers={"Retry-After": n}), attempt=2).delay for n in ("0", "1", "30")]
    assert waits == [2 * SECOND, 2 * SECOND, 30 * SECOND]


def test_retry_after_does_not_add_attempts():
    assert isinstance(judged(Refused(status=429, headers={"Retry-After": "1"}), attempt=3), Dead)


def test_without_a_status_headers_are_not_asked():
    assert retried(judged(Refused(headers={"Retry-After": "30"})), SECOND)


def test_the_policy_overrules_a_status_and_still_waits_as_asked():
    policy = Policy(backoff=EXACT, keep_dead=BURIED, retry_on=(Refused,))
    assert retried(judged(Refused(status=403, headers={"Retry-After": "30"}), policy), 30 * SECOND)
    assert died(judged(Refused(status=503), Policy(keep_dead=BURIED, dead_on=(Refused,))))


def test_the_headers_of_the_response_come_first_and_both_are_looked_at():
    own, inner = {"Retry-After": "5"}, {"Retry-After": "9"}
    assert retry_after(Refused(headers=own, response=answer(headers=inner)), None) == 9 * SECOND
    assert retry_after(Refused(headers=own, response=answer(headers={"X": "1"})), None) == 5 * SECOND


def test_endless_headers_come_to_an_end():
    class Endless:
        def items(self):
            while True:
                yield "X", "1"

    assert isinstance(judged(Refused(status=503, headers=Endless())), Again)
