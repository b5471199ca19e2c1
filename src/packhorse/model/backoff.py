"""How long to wait before the next try."""

import math

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.duration import Duration, micros


class Backoff(msgspec.Struct, frozen=True):
    """A delay that grows by a factor with every retry, up to a cap, spread by a share of itself."""

    base: int
    """Microseconds before the first retry."""
    factor: float = 2.0
    """By how much each further delay is longer."""
    cap: int | None = None
    """The longest delay in microseconds; None for no cap."""
    jitter: float = 0.0
    """The share of a delay by which it may be shorter or longer, from 0 to 1."""

    def __post_init__(self) -> None:
        limits.span("backoff base", self.base)
        if self.cap is not None:
            limits.span("backoff cap", self.cap)
        if not 0 <= self.factor < math.inf:
            raise InvalidOption("factor", self.factor, "give a number that is not negative")
        if not 0 <= self.jitter <= 1:
            raise InvalidOption("jitter", self.jitter, "give a fraction from 0 (exact) to 1")

    def delay(self, retry: int, chance: float) -> int:
        """Microseconds before the given retry (the first is 1); chance is a random number from 0 to 1."""
        most = limits.MAX_DURATION_US if self.cap is None else self.cap
        try:
            plain = min(self.base * self.factor ** (retry - 1), most)
        except OverflowError:
            plain = most if self.base else 0
        return min(round(plain * (1 + self.jitter * (2 * chance - 1))), limits.MAX_DURATION_US)


def exponential(base: Duration = 1, *, cap: Duration | None = "1h", jitter: float = 0.1) -> Backoff:
    """Doubling delays: exponential(1) waits 1, 2, 4 s and so on."""
    return Backoff(micros(base), 2.0, None if cap is None else micros(cap), jitter)


def constant(delay: Duration, *, jitter: float = 0.0) -> Backoff:
    """The same delay every time."""
    return Backoff(micros(delay), 1.0, None, jitter)


def checked(given: object) -> Backoff:
    """A backoff, or a word on how to make one."""
    if not isinstance(given, Backoff):
        raise InvalidOption("backoff", given, "give exponential(…) or constant(…)")
    return given
