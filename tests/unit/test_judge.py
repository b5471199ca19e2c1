"""How an attempt that did not return is settled."""

import asyncio
from http import HTTPStatus

import msgspec
import pytest

from packhorse.engine.judge import MOST_ASKED, Cause
from packhorse.engine.policy import Policy
from packhorse.engine.signals import Cancel, Fail, Retry, Snooze
from packhorse.errors import (
    BadSignature,
    InvalidArguments,
    PayloadTooLarge,
    StoreUnavailable,
    TooManyEffects,
    UndecodablePayload,
)
from packhorse.model import limits
from packhorse.model.backoff import constant, exponential
from packhorse.model.outcome import Again, Cancelled
from packhorse.model.reason import DeadReason
from tests.judging import BURIED, EXACT, KEPT, SECOND, died, judged, retried

ODD_STOPS = [asyncio.CancelledError(), ValueError("cleaning up failed"), Retry(5), Snooze(5), Cancel(), SystemExit(1)]


class Early(Exception):
    pass


class Earlier(Early):
    pass


# -- why the engine stopped it


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize("error", ODD_STOPS, ids=lambda error: type(error).__name__)
def test_the_cause_of_a_stop_rules_whatever_the_handler_made_of_it(error, attempt):
    settled = {cause: judged(error, attempt=attempt, stopped=cause) for cause in Cause}

    assert settled.pop(Cause.LOST) is None
    assert settled.pop(Cause.CANCEL) == Cancelled(KEPT)
    assert settled.pop(Cause.SHUTDOWN) == Again(0, None, charged=False)
    assert settled.pop(Cause.LAPSED) == Again(0, None, charged=False)
    late = settled.pop(Cause.TIMEOUT)
    assert retried(late) if attempt == 1 else died(late, DeadReason.EXHAUSTED)
    assert late.error.type == "TimeoutError"
    assert settled == {}


def test_a_time_out_says_after_how_long_and_where_it_was():
    def stuck():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError) as caught:
        stuck()
    policy = Policy(timeout=1_500_000)
    failure = judged(caught.value, policy, stopped=Cause.TIMEOUT).error

    assert failure.message == "timed out after 1.5 s"
    assert "in stuck" in failure.traceback


def test_time_outs_follow_the_backoff():
    outcomes = [judged(asyncio.CancelledError(), attempt=n, stopped=Cause.TIMEOUT) for n in (1, 2)]
    assert [outcome.delay for outcome in outcomes] == [SECOND, 2 * SECOND]


def test_a_time_out_is_final_if_the_policy_says_so():
    def late(**rules):
        return judged(asyncio.CancelledError(), Policy(keep_dead=BURIED, **rules), stopped=Cause.TIMEOUT)

    assert died(late(dead_on=(TimeoutError,)))
    assert died(late(dead_on=(Exception,)))
    assert isinstance(late(dead_on=(Exception,), retry_on=(TimeoutError,)), Again)
    assert isinstance(late(dead_on=(asyncio.CancelledError,)), Again)


# -- how often and when


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_attempts_count_every_try(attempts):
    policy = Policy(attempts=attempts, backoff=EXACT, keep_dead=BURIED)
    ends = [judged(OSError("no"), policy, attempt=n + 1) for n in range(attempts + 1)]

    assert [end.delay for end in ends[:-2]] == [SECOND * 2**n for n in range(attempts - 1)]
    assert all(died(end, DeadReason.EXHAUSTED) for end in ends[-2:])
    assert ends[-1].error.message == "no"


def test_chance_spreads_the_delay():
    policy = Policy(backoff=exponential(10, jitter=0.5))
    assert [judged(OSError(), policy, chance=chance).delay for chance in (0.0, 0.5)] == [5 * SECOND, 10 * SECOND]


def test_a_delay_beyond_what_stores_take_is_cut():
    policy = Policy(attempts=1000, backoff=exponential("5000w", cap=None, jitter=1))
    assert judged(OSError(), policy, attempt=900, chance=0.99).delay == limits.MAX_DURATION_US


# -- what user code raises on purpose


def test_a_retry_takes_its_own_delay_or_that_of_the_backoff():
    assert retried(judged(Retry()), SECOND)
    assert retried(judged(Retry(), attempt=2), 2 * SECOND)
    assert retried(judged(Retry("20s"), attempt=2), 20 * SECOND)
    assert retried(judged(Retry(0)), 0)


def test_a_retry_of_the_last_attempt_is_dead():
    assert died(judged(Retry("20s"), attempt=3), DeadReason.EXHAUSTED)


@pytest.mark.parametrize("attempt", [1, 3, 99])
def test_a_snooze_costs_no_attempt(attempt):
    assert judged(Snooze("5m"), attempt=attempt) == Again(300 * SECOND, None, charged=False)


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_cancel_ends_the_job_as_cancelled(attempt):
    cancelled = judged(Cancel("why"), attempt=attempt)
    assert isinstance(cancelled, Cancelled)
    assert (cancelled.keep, cancelled.error.type, cancelled.error.message) == (
        KEPT,
        "packhorse.engine.signals.Cancel",
        "why",
    )
    assert judged(Cancel(), attempt=attempt) == Cancelled(KEPT)


@pytest.mark.parametrize("attempt", [1, 7])
def test_a_fail_is_dead_now_with_its_text(attempt):
    dead = judged(Fail("no such account"), Policy(attempts=20, keep_dead=BURIED), attempt=attempt)

    assert died(dead, DeadReason.FINAL)
    assert dead.error.message == "no such account"
    assert judged(Fail()).error.message == ""


def test_signals_come_before_the_rules_of_the_policy():
    policy = Policy(dead_on=(Exception,))
    assert isinstance(judged(Retry(1), policy), Again)
    assert isinstance(judged(Snooze(1), policy), Again)
    assert isinstance(judged(Cancel(), policy), Cancelled)
    assert judged(Fail(), policy).reason is DeadReason.FINAL


@pytest.mark.parametrize("kind", [Retry, Snooze])
@pytest.mark.parametrize("delay", [None, "5m", 1.5, True])
def test_a_signal_without_a_proper_delay_is_an_ordinary_retry(kind, delay):
    class Own(kind):
        def __init__(self):
            if delay is not None:
                self.delay = delay

    assert retried(judged(Own()))


def test_the_delay_of_a_signal_is_kept_within_bounds():
    far, back = Retry(), Snooze(0)
    far.delay, back.delay = 2 * limits.MAX_DURATION_US, -1
    assert (judged(far).delay, judged(back).delay) == (limits.MAX_DURATION_US, 0)


# -- errors


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError(), ConnectionResetError(), TimeoutError(), OSError(28, "full"), KeyError("x"), ValueError(),
        Exception(), BaseException(), SystemExit(0), SystemExit("bye"), KeyboardInterrupt(), GeneratorExit(),
        StopIteration(), StopAsyncIteration(), RecursionError(), MemoryError(), asyncio.CancelledError(),
        AssertionError(), NotImplementedError(), StoreUnavailable("gone"), msgspec.DecodeError("not JSON"), Early(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_that_no_rule_names_is_retried(error):
    assert retried(judged(error))
    assert died(judged(error, attempt=3), DeadReason.EXHAUSTED)


def invalid():
    try:
        msgspec.convert("x", int)
    except msgspec.ValidationError as error:
        return error


def named(name, module, parent=ValueError):
    return type(name, (parent,), {"__module__": module})


FINAL = [
    invalid(),
    InvalidArguments("a set"),
    PayloadTooLarge("result", 2, 1),
    TooManyEffects("effects", 501, 500),
    named("ValidationError", "pydantic_core._pydantic_core")("bad"),
    named("ValidationError", "pydantic.error_wrappers")("bad"),
    named("Own", "shop", named("ValidationError", "pydantic"))("bad"),
]


@pytest.mark.parametrize("error", FINAL, ids=lambda error: f"{type(error).__module__}.{type(error).__name__}")
def test_a_wrong_value_is_dead_at_once(error):
    assert died(judged(error))
    assert retried(judged(error, Policy(backoff=EXACT, retry_on=(ValueError,))))


@pytest.mark.parametrize(
    ("name", "module"), [("ValidationError", "shop"), ("ValidationError", "pydantically"), ("Other", "pydantic")]
)
def test_what_only_resembles_a_validation_error_is_retried(name, module):
    assert retried(judged(named(name, module)("bad")))


def test_what_cannot_be_read_is_dead_for_that_reason():
    policy = Policy(keep_dead=BURIED, retry_on=(Exception,))
    assert died(judged(UndecodablePayload("broken"), policy), DeadReason.UNDECODABLE)
    assert died(judged(BadSignature("forged"), policy), DeadReason.SIGNATURE)


def test_the_policy_is_asked_first():
    policy = Policy(backoff=EXACT, keep_dead=BURIED, retry_on=(msgspec.ValidationError,), dead_on=(ConnectionError,))
    assert retried(judged(invalid(), policy))
    assert died(judged(ConnectionResetError(), policy))
    assert retried(judged(OSError(), policy))


@pytest.mark.parametrize(
    ("retry_on", "dead_on", "dies"),
    [
        ((Early,), (Exception,), False),
        ((Exception,), (Early,), True),
        ((Early,), (Earlier,), True),
        ((Earlier,), (Early,), False),
        ((ValueError, Exception), (Early, KeyError), True),
        ((), (BaseException,), True),
        ((), (KeyError,), False),
    ],
)
def test_the_class_nearer_to_the_error_decides(retry_on, dead_on, dies):
    outcome = judged(Earlier(), Policy(backoff=EXACT, keep_dead=BURIED, retry_on=retry_on, dead_on=dead_on))
    assert died(outcome) if dies else retried(outcome)


def test_a_failure_tells_type_message_and_place_but_no_values():
    def handler(password):
        raise Early("it broke")

    with pytest.raises(Early) as caught:
        handler("hunter2")
    failure = judged(caught.value).error

    assert (failure.type, failure.message) == (f"{__name__}.Early", "it broke")
    assert "in handler" in failure.traceback
    assert "hunter2" not in failure.traceback.replace('handler("hunter2")', "")
    assert judged(KeyError("k")).error.type == "KeyError"


# -- groups


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([invalid(), PayloadTooLarge("result", 2, 1)], DeadReason.FINAL),
        ([invalid(), OSError()], SECOND),
        ([OSError(), ExceptionGroup("in", [invalid()])], SECOND),
        ([ExceptionGroup("in", [invalid(), invalid()])], DeadReason.FINAL),
        ([UndecodablePayload("x")], DeadReason.UNDECODABLE),
        ([UndecodablePayload("x"), invalid()], DeadReason.FINAL),
        ([Retry(20)], 20 * SECOND),
        ([Retry(20), OSError()], 20 * SECOND),
        ([Retry(20), invalid(), Snooze(30)], 30 * SECOND),
        ([Cancel(), invalid()], SECOND),
    ],
)
def test_a_group_is_dead_at_once_only_if_every_member_is_final(members, expected):
    outcome = judged(ExceptionGroup("several", members))
    assert died(outcome, expected) if isinstance(expected, DeadReason) else retried(outcome, expected)


def test_signals_reach_through_a_group():
    assert judged(ExceptionGroup("", [Snooze(5), Snooze(9), Snooze(7)])) == Again(9 * SECOND, None, charged=False)
    assert judged(ExceptionGroup("", [ExceptionGroup("", [Cancel()])])) == Cancelled(KEPT)
    assert judged(ExceptionGroup("", [Cancel("one"), Cancel(), Cancel("two")])).error.message == "one; two"


def test_the_policy_is_asked_of_members_and_of_groups_by_name():
    tolerant = Policy(backoff=EXACT, keep_dead=BURIED, dead_on=(Exception,), retry_on=(OSError,))
    assert retried(judged(ExceptionGroup("", [OSError()]), tolerant))
    assert died(judged(ExceptionGroup("", [KeyError()]), tolerant))
    assert retried(judged(ExceptionGroup("", [invalid()]), Policy(backoff=EXACT, retry_on=(ExceptionGroup,))))


def test_vast_and_deep_groups_are_judged():
    deep: Exception = invalid()
    for _ in range(5000):
        deep = ExceptionGroup("", [deep])
    assert died(judged(deep))
    assert retried(judged(ExceptionGroup("", [OSError()] * 20_000)))
    assert died(judged(ExceptionGroup("", [invalid()] * MOST_ASKED)))
    assert retried(judged(ExceptionGroup("", [OSError()] + [invalid()] * MOST_ASKED)))


# -- exceptions that fight back


class Hostile(Exception):
    @property  # type: ignore[misc]
    def __class__(self):
        raise RuntimeError("no class")

    def __getattribute__(self, name):
        raise SystemExit("no attributes")

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


class Riddle(type):
    def __eq__(cls, other):
        raise RuntimeError("incomparable")

    __hash__ = type.__hash__

    @property
    def __name__(cls):
        raise RuntimeError("nameless")


class Nameless(Exception, metaclass=Riddle):
    pass


@pytest.mark.parametrize("kind", [Hostile, Nameless], ids=["hostile", "nameless"])
@pytest.mark.parametrize("rules", [{}, {"dead_on": (KeyError,)}, {"retry_on": (KeyError,)}])
def test_an_exception_that_cannot_be_looked_at_is_retried(kind, rules):
    error = kind("x")
    policy = Policy(backoff=EXACT, keep_dead=BURIED, **rules)
    assert retried(judged(error, policy))
    assert died(judged(error, policy, attempt=3), DeadReason.EXHAUSTED)
    assert retried(judged(error, policy, stopped=Cause.TIMEOUT))


def test_every_outcome_can_be_built_from_huge_texts():
    outcome = judged(ValueError("\0\ud800" * 1_000_000))
    assert len(outcome.error.message.encode()) <= limits.MESSAGE
    assert len(outcome.error.traceback.encode()) <= limits.TRACEBACK
    msgspec.json.encode(outcome.error)


def test_a_constant_backoff_and_http_status_enum_are_understood():
    error = OSError()
    error.status = HTTPStatus.NOT_FOUND
    assert died(judged(error, Policy(backoff=constant(5), keep_dead=BURIED)))
