"""Where claims begin while dead rows are in their way.

A row that was claimed stays in the way of later claims until a vacuum may take it away, which it may not while a
snapshot from before is held. So while there are many, claims begin where the last one of the same queue and priority
began; every now and then one looks at all of it, for a job may have come late to a place before that.
"""

import msgspec

from packhorse.model.clock import Clock

PERIOD = 1_000_000  # microseconds between looks at all of it
SHARE = 10  # microseconds for each dead row: such a look walks over all of them, and may take a twentieth of the time


class Hint(msgspec.Struct, frozen=True):
    """A place in the order of a queue."""

    queue: str
    priority: int
    since: int
    seq: int


class Hints:
    """Of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._dead = 0
        self._looked = 0
        self._known: dict[tuple[str, int], Hint] = {}

    def worn(self, dead: int) -> None:
        """So many dead rows are in the way; none says that claims may begin at the beginning."""
        self._dead = dead
        if not dead:
            self._known.clear()

    def given(self) -> str | None:
        """What to tell a claim; None if nothing is in its way."""
        if not self._dead:
            return None
        now = self._clock.steady()
        if now - self._looked >= max(PERIOD, SHARE * self._dead):
            self._looked = now
            return "[]"
        return msgspec.json.encode(list(self._known.values())).decode()

    def learnt(self, began: str | None) -> None:
        """Remember where a claim began."""
        if began is not None and self._dead:
            for hint in _BEGAN.decode(began):
                self._known[hint.queue, hint.priority] = hint


_BEGAN = msgspec.json.Decoder(list[Hint])
