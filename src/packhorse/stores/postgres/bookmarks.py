"""Where claims begin while dead rows are in their way.

A row that was claimed stays in the way of later claims until a vacuum may take it away, which it may not while a
snapshot from before is held. So while there are many, claims begin where the last one of the same queue and priority
began; every now and then one looks at all of it, for a job may have come late to a place before that.
"""

import msgspec

from packhorse.model.clock import Clock

FULL_LOOK_EVERY_US = 1_000_000  # between looks at all of it
# For each dead row: such a look walks over all of them, and may take a twentieth of the time.
FULL_LOOK_US_PER_DEAD_ROW = 10


class ClaimBookmark(msgspec.Struct, frozen=True):
    """A place in the order of a queue."""

    queue: str
    priority: int
    since: int
    seq: int


class ClaimBookmarks:
    """The bookmarks of one process, by queue and priority."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._dead = 0
        self._last_full_look = 0
        self._known: dict[tuple[str, int], ClaimBookmark] = {}

    def set_dead_rows(self, dead: int) -> None:
        """Set how many dead rows claims would walk over; with none, claims begin at the head of a queue."""
        self._dead = dead
        if not dead:
            self._known.clear()

    def to_send(self) -> str | None:
        """The bookmarks for a claim, as JSON; None if there are no dead rows to skip."""
        if not self._dead:
            return None
        now = self._clock.steady()
        if now - self._last_full_look >= max(FULL_LOOK_EVERY_US, FULL_LOOK_US_PER_DEAD_ROW * self._dead):
            self._last_full_look = now
            return "[]"
        return msgspec.json.encode(list(self._known.values())).decode()

    def remember(self, began: str | None) -> None:
        """Remember where a claim began."""
        if began is not None and self._dead:
            for bookmark in _BEGAN.decode(began):
                self._known[bookmark.queue, bookmark.priority] = bookmark


_BEGAN = msgspec.json.Decoder(list[ClaimBookmark])
