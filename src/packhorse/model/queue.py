"""What is known of a queue as a whole."""

from collections.abc import Mapping

import msgspec

from packhorse.model.job import State

ENQUEUED = "enqueued"  # beside the words of the end states, what stores count of jobs that have gone
Counts = Mapping[State, int]


class QueueStats(msgspec.Struct, frozen=True):
    """One queue at a glance; moments are None where there is nothing ready or scheduled.

    ``total_enqueued`` counts all jobs that were ever enqueued, ``total_ended`` all that ever ended, by state. Both also
    count jobs that were removed or replayed since.
    """

    name: str
    paused: bool
    counts: Counts
    oldest_ready: int | None
    next_due: int | None
    total_enqueued: int = 0
    total_ended: Counts = msgspec.field(default_factory=dict)


def queue_stats(
    name: str,
    *,
    paused: bool,
    counts: Counts,
    past: Mapping[str, int],
    oldest_ready: int | None,
    next_due: int | None,
) -> QueueStats:
    """Make the stats of a queue, with totals.

    ``past`` is what the queue counts no more: its removed jobs as ``enqueued``, and by state the ends that jobs have left
    because they were removed or replayed.
    """
    ended = {state: counts.get(state, 0) + past.get(state.value, 0) for state in State if state.ended}
    enqueued = sum(counts.values()) + past.get(ENQUEUED, 0)
    return QueueStats(name, paused, counts, oldest_ready, next_due, enqueued, ended)
