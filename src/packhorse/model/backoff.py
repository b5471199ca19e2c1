"""How long to wait before the next try."""

import msgspec

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.duration import Duration, micros


class Backoff(msgspec.Struct, frozen=True):
    """A delay that grows by a factor with every retry, up to a cap, spread by a share of itself."""

    base: int
    factor: float = 2.0
    cap: int | None = None
    jitter: float = 0.0

    def delay(self, retry: int, chance: float) -> int:
        """Microseconds before the given retry (the first is 1); chance is a random number from 0 to 1."""
        most = caps.LONGEST if self.cap is None else self.cap
        try:
            plain = min(self.base * self.factor ** (retry - 1), most)
        except OverflowError:
            plain = most if self.base else 0
        return min(round(plain * (1 + self.jitter * (2 * chance - 1))), caps.LONGEST)


def exponential(base: Duration = 1, *, cap: Duration | None = "1h", jitter: float = 0.1) -> Backoff:
    """Doubling delays: exponential(1) waits 1, 2, 4 s and so on."""
    return _checked(Backoff(micros(base), 2.0, None if cap is None else micros(cap), jitter))


def constant(delay: Duration, *, jitter: float = 0.0) -> Backoff:
    """The same delay every time."""
    return _checked(Backoff(micros(delay), 1.0, None, jitter))


def _checked(backoff: Backoff) -> Backoff:
    if not 0 <= backoff.jitter <= 1:
        raise InvalidOption("jitter", backoff.jitter, "give a share from 0 (exact) to 1")
    return backoff
