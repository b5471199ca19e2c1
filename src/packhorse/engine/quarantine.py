"""Keeps a job that was lost too often apart: it begins when the others have ended, and runs alone for a lease."""

from collections.abc import Callable

from packhorse.engine.attempt import Attempt, Phase
from packhorse.engine.deadlines import Deadlines
from packhorse.model.clock import Clock


class Quarantine:
    """Room for one attempt, ``attempt``. ``start`` begins it after a lease at the latest; ``wake`` is called when others may go on."""

    def __init__(
        self,
        lease: int,
        *,
        clock: Clock,
        deadlines: Deadlines,
        start: Callable[[Attempt, int], None],
        wake: Callable[[], None],
    ) -> None:
        self.attempt: Attempt | None = None
        self._lease, self._clock, self._deadlines = lease, clock, deadlines
        self._start, self._wake = start, wake

    def enter(self, attempt: Attempt) -> bool:
        """Take an attempt in; false if there is one already."""
        if self.attempt is not None:
            return False
        self.attempt = attempt
        self._deadlines.after(self._lease, lambda: self._over(attempt))
        return True

    def leave(self, attempt: Attempt) -> None:
        """Let an attempt go, if it is the one."""
        if self.attempt is attempt:
            self.attempt = None

    def _over(self, attempt: Attempt) -> None:
        """The others did not end in time, or it has run long enough to be trusted: go on side by side."""
        if self.attempt is not attempt:
            return
        now = self._clock.steady()
        if attempt.phase is Phase.PENDING:
            self._start(attempt, now)
        left = attempt.started_at + self._lease - now
        if left > 0:
            self._deadlines.after(left, lambda: self._over(attempt))
        else:
            self.attempt = None
        self._wake()
