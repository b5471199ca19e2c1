"""How an attempt that did not return is settled. Pure, and the only place that knows the rules of trying again."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from packhorse.engine import response
from packhorse.engine.policy import Policy
from packhorse.engine.signals import Cancel, Fail, Retry, Snooze
from packhorse.errors import (
    BadSignature,
    ChildFailed,
    InvalidArguments,
    PayloadTooLarge,
    TooManyBytes,
    TooManyEffects,
    TooMuchEmitted,
    UndecodablePayload,
)
from packhorse.model import limits
from packhorse.model.exception_text import failure_of, members, message, trace
from packhorse.model.exception_text import kind as kind_of
from packhorse.model.job import Failure, failure
from packhorse.model.lease import Lease
from packhorse.model.outcome import Again, Cancelled, Dead, Outcome
from packhorse.model.reason import DeadReason

PASSING: Final = frozenset((408, 425, 429))
MOST_ASKED: Final = 1000
REFUSED: Final = (
    msgspec.ValidationError,
    InvalidArguments,
    PayloadTooLarge,
    TooManyBytes,
    TooManyEffects,
    TooMuchEmitted,
    ChildFailed,
)


class Cause(StrEnum):
    """Why the engine itself stopped an attempt."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LAPSED = "lapsed"  # its lease could not be renewed in time, so another worker may soon have it
    LOST = "lost"


class _Try(msgspec.Struct, frozen=True):
    """Try again: at the user's delay if one is given, else by the backoff, but not before what the server asks."""

    exactly: int | None = None
    at_least: int = 0


class _Later(msgspec.Struct, frozen=True):
    delay: int


class _Off(msgspec.Struct, frozen=True):
    why: str = ""


class _End(msgspec.Struct, frozen=True):
    reason: DeadReason = DeadReason.FINAL


_Rule = _Try | _Later | _Off | _End


def judge(
    policy: Policy,
    lease: Lease,
    error: BaseException,
    *,
    stopped: Cause | None,
    chance: float,
    now: int | None = None,
) -> Outcome | None:
    """The outcome of an attempt that ended with an error, or None if the lease is lost and nothing may be settled.

    If the engine stopped the attempt, its cause rules, whatever the handler made of being stopped. A time-out is a
    ``TimeoutError`` like any other: ``dead_on`` and ``retry_on`` are asked about it. ``now`` (microseconds since 1970)
    is only needed to understand a ``Retry-After`` that is a date in a response without one.
    """
    match stopped:
        case None:
            return _settled(policy, lease, error, _asked(policy, error, now), chance)
        case Cause.LOST:
            return None
        case Cause.SHUTDOWN | Cause.LAPSED:
            return Again(charged=False)
        case Cause.CANCEL:
            return Cancelled(policy.keep_done)
        case Cause.TIMEOUT:
            return _failed(policy, lease, _late(policy, error), _named(policy, TimeoutError) or _Try(), chance)
        case _:
            assert_never(stopped)


def _settled(policy: Policy, lease: Lease, error: BaseException, rule: _Rule, chance: float) -> Outcome:
    match rule:
        case _Later(delay):
            return Again(delay, charged=False)
        case _Off(why):
            return Cancelled(policy.keep_done, failure(kind_of(error), why, trace(error)) if why else None)
        case _:
            return _failed(policy, lease, failure_of(error), rule, chance)


def _failed(policy: Policy, lease: Lease, what: Failure, rule: _Try | _End, chance: float) -> Outcome:
    if isinstance(rule, _End):
        return Dead(rule.reason, what, policy.keep_dead)
    if lease.attempt >= policy.attempts:
        return Dead(DeadReason.EXHAUSTED, what, policy.keep_dead)
    if rule.exactly is not None:
        return Again(rule.exactly, what)
    return Again(max(policy.backoff.delay(lease.attempt, chance), rule.at_least), what)


def _late(policy: Policy, error: BaseException) -> Failure:
    after = "" if policy.timeout is None else f" after {policy.timeout / limits.SECOND:g} s"
    return failure("TimeoutError", f"timed out{after}", trace(error))


def _asked(policy: Policy, error: BaseException, now: int | None) -> _Rule:
    try:
        return _rule(policy, error, now)
    except Exception:  # noqa: BLE001 - a class so odd that it cannot be asked is an error no rule names
        return _Try()


def _rule(policy: Policy, error: BaseException, now: int | None) -> _Rule:
    # Asked by real class throughout: what an exception says of its own class may be the user's code.
    kind = type(error)
    if issubclass(kind, BaseExceptionGroup):
        return _named(policy, kind, BaseExceptionGroup) or _together(list(_rules(policy, error, now)))
    return _one(policy, error, now)


def _one(policy: Policy, error: BaseException, now: int | None) -> _Rule:
    kind = type(error)
    if issubclass(kind, Retry):
        return _Try(exactly=_delay(error))
    if issubclass(kind, Snooze):
        delay = _delay(error)
        return _Try() if delay is None else _Later(delay)
    if issubclass(kind, Cancel):
        return _Off(message(error))
    if issubclass(kind, Fail):
        return _End()
    if issubclass(kind, UndecodablePayload):
        return _End(DeadReason.UNDECODABLE)
    if issubclass(kind, BadSignature):
        return _End(DeadReason.SIGNATURE)
    status = response.status(error)
    rule = _named(policy, kind) or _answered(status) or (_End() if _refused(kind) else _Try())
    if isinstance(rule, _Try) and status is not None:
        return _Try(at_least=response.retry_after(error, now) or 0)
    return rule


def _delay(signal: BaseException) -> int | None:
    # A subclass may have skipped the constructor that made it a whole number.
    delay = response.look(signal, "delay")
    return min(max(delay, 0), limits.MAX_DURATION_US) if type(delay) is int else None


def _named(policy: Policy, kind: type[BaseException], root: type[BaseException] = BaseException) -> _Try | _End | None:
    """What the policy says of a class or the nearest of its ancestors up to the root."""
    for each in kind.__mro__:
        if not issubclass(each, root):
            continue
        if each in policy.dead_on:
            return _End()
        if each in policy.retry_on:
            return _Try()
    return None


def _answered(status: int | None) -> _Try | _End | None:
    if status is None or status < 400:
        return None
    return _Try() if status >= 500 or status in PASSING else _End()


def _refused(kind: type[BaseException]) -> bool:
    """Whether the error says that a value is wrong, and so would be at every try."""
    if issubclass(kind, REFUSED):
        return True
    return any(
        each.__name__ == "ValidationError" and str(each.__module__).partition(".")[0] in {"pydantic", "pydantic_core"}
        for each in kind.__mro__
    )


def _rules(policy: Policy, group: BaseException, now: int | None) -> Iterator[_Rule]:
    """A rule for each exception at the bottom of a group; those beyond what can be asked are tried again."""
    heap, asked = [group], 0
    while heap:
        error = heap.pop()
        if inner := members(error):
            heap.extend(reversed(inner))
        elif asked < MOST_ASKED:
            asked += 1
            yield _one(policy, error, now)
        else:
            yield _Try()
            return


def _together(rules: Sequence[_Rule]) -> _Rule:
    """One rule for the members of a group: theirs if they agree, else another try when the last of them may."""
    if len(rules) == 1 or all(rule == rules[0] for rule in rules):
        return rules[0]
    if all(isinstance(rule, _End) for rule in rules):
        return _End()
    whys = [rule.why for rule in rules if isinstance(rule, _Off)]
    if len(whys) == len(rules):
        return _Off("; ".join(why for why in whys if why))
    waits = [0]
    for rule in rules:
        match rule:
            case _Later(delay):
                waits.append(delay)
            case _Try(exactly, at_least):
                waits.append(at_least if exactly is None else exactly)
    if all(isinstance(rule, _Later) for rule in rules):
        return _Later(max(waits))
    return _Try(at_least=max(waits))
