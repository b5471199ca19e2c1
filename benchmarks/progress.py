"""How far a run is, and about how long it will still take."""

import time
from collections.abc import Callable

SURE = 60.0  # seconds after which what was expected is corrected by what it took


class Progress:
    """Counts trials that were expected to take so many seconds each."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._turns, self._open = now, 0, 0.0
        self._done, self._expected, self._took = 0, 0.0, 0.0

    def expect(self, turns: int, seconds: float) -> None:
        """Say what is still to come, in place of the last text."""
        self._turns, self._open = self._done + turns, seconds

    def begin(self) -> None:
        """A trial begins."""
        self._begun = self._now()

    def end(self, expected: float, *, made: bool) -> None:
        """It has ended; one that was not made, because a file has it, says nothing about the others."""
        self._done, self._open = self._done + 1, max(0.0, self._open - expected)
        if made:
            self._expected, self._took = self._expected + expected, self._took + self._now() - self._begun

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._open * (self._took / self._expected if self._took > SURE else 1)

    def __str__(self) -> str:
        return f"{self._done}/{self._turns}, about {self.left / 60:.0f} minutes left"
