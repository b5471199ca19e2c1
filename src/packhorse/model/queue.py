"""What is known of a queue as a whole."""

from collections.abc import Mapping

import msgspec

from packhorse.model.job import State

Counts = Mapping[State, int]


class QueueStats(msgspec.Struct, frozen=True):
    """One queue at a glance; moments are None where there is nothing ready or scheduled."""

    name: str
    paused: bool
    counts: Counts
    oldest_ready: int | None
    next_due: int | None
