"""The ask that an idle worker has left with a store that can wait.

While it stands no other ask is made: a store remembers the last one of a worker, so that it can be repeated, with the same
leases for an answer, if its own was missed.
"""

import msgspec

from packhorse.model.lease import Ask
from packhorse.stores.contract import Leave

LONGEST = 2_000_000  # microseconds until it is answered, or missed


class Standing:
    """At most one ask; ``missed`` says that its answer will not come by itself."""

    def __init__(self) -> None:
        self.ask: Ask | None = None
        self.since = 0
        self.missed = False
        self._leave: Leave | None = None

    @property
    def wanted(self) -> bool:
        """Whether an ask may be left now."""
        return self._leave is not None and self.ask is None

    def may_leave(self, leave: Leave | None) -> None:
        """The store says how to leave an ask with its next wait, or that this wait is over."""
        self._leave = leave
        if leave is not None:
            self.miss()

    def leave(self, ask: Ask, now: int) -> None:
        """Leave an ask that is wanted."""
        assert self._leave is not None
        self.ask, self.since = ask, now
        self._leave(ask)

    def miss(self) -> None:
        """What was waited for is over: if an ask still stands, it has to be made again."""
        self.missed = self.ask is not None
        if self.ask is not None and not self.ask.again:
            self.ask = again(self.ask)

    def over(self) -> None:
        """It was answered."""
        self.ask, self.missed = None, False


def again(ask: Ask, max_bytes: int | None = None) -> Ask:
    """The ask as a repeat: the store may still receive its first copy, and must not answer that one anew."""
    return msgspec.structs.replace(ask, again=True, max_bytes=max_bytes or ask.max_bytes)
