"""Keeps a job that was lost too often apart: it begins when the others have ended, and runs alone for a lease."""

from collections.abc import Callable

from packhorse.engine.context import Context
from packhorse.engine.deadlines import Deadlines
from packhorse.model.clock import Clock


class Quarantine:
    """Room for one attempt, ``ctx``. ``start`` begins it after a lease at the latest; ``wake`` is called when others may go on."""

    def __init__(
        self,
        lease: int,
        *,
        clock: Clock,
        deadlines: Deadlines,
        start: Callable[[Context, int], None],
        wake: Callable[[], None],
    ) -> None:
        self.ctx: Context | None = None
        self._lease, self._clock, self._deadlines = lease, clock, deadlines
        self._start, self._wake = start, wake

    def enter(self, ctx: Context) -> bool:
        """Take an attempt in; false if there is one already."""
        if self.ctx is not None:
            return False
        self.ctx = ctx
        self._deadlines.after(self._lease, lambda: self._over(ctx))
        return True

    def leave(self, ctx: Context) -> None:
        """Let an attempt go, if it is the one."""
        if self.ctx is ctx:
            self.ctx = None

    def _over(self, ctx: Context) -> None:
        """The others did not end in time, or it has run long enough to be trusted: go on side by side."""
        if self.ctx is not ctx:
            return
        now = self._clock.steady()
        if not ctx.begun:
            self._start(ctx, now)
        left = ctx.begun + self._lease - now
        if left > 0:
            self._deadlines.after(left, lambda: self._over(ctx))
        else:
            self.ctx = None
        self._wake()
