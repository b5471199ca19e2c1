"""How many jobs to claim, and from which queues: deficit round robin over the queues of a worker."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from packhorse.errors import InvalidOption
from packhorse.model import limits
from packhorse.model.lease import Lease, Share

PREFETCH_MAX_MEAN_US = 20_000  # jobs that take longer are not claimed before there is a slot for them
PREFETCH_FIRST_MEAN_US = 1_000_000  # assumed until jobs have ended
PREFETCH_FULL_WEIGHT_JOBS = 20  # a round of so many jobs replaces the mean


class Shares:
    """Divide the free slots among queues by weight: deficit round robin.

    Each queue has a deficit: the picks it is owed from earlier claims. Every pick adds to each queue's deficit its part
    of one pick (weight over the sum of weights), goes to the queue with the highest deficit, and costs that queue one.
    So weights also hold when the worker claims one job at a time.

    ``divide`` plans a claim with copies of the deficits; ``record_claim`` changes them, by what the claim has brought.
    A queue that was asked for more jobs than it had loses its deficit: a queue that is empty, or may have no more, is
    owed nothing, and its part goes to the others.

    Example, weights ``{"a": 3, "b": 1}``, parts 0.75 and 0.25, one free slot at a time, both queues full:

    ====== ================== ==== ==================
    claim  deficits + parts   pick deficits afterwards
    ====== ================== ==== ==================
    1      a 0.75    b 0.25   a    a -0.25   b 0.25
    2      a 0.50    b 0.50   a    a -0.50   b 0.50
    3      a 0.25    b 0.75   b    a 0.25    b -0.25
    4      a 1.00    b 0.00   a    a 0.00    b 0.00
    ====== ================== ==== ==================

    After four picks a has had three, b one, and nobody is owed anything. With four free slots at once, ``divide(4, {})``
    makes the same four picks in one claim: ``(Share("a", 3), Share("b", 1))``. If b then brings no job, its deficit
    becomes 0, not 1.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        if not weights:
            raise InvalidOption("queues", {}, "name at least one queue")
        for queue, weight in weights.items():
            limits.name("queue", queue)
            limits.within(f"weight of {queue}", weight, 1, 1_000_000)
        self._weights = dict(weights)
        self._deficits = dict.fromkeys(weights, 0.0)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that are served."""
        return tuple(self._weights)

    def divide(self, room: int, queue_room: Mapping[str, int]) -> tuple[Share, ...]:
        """Plan the shares of so many picks, highest deficit first; ``queue_room`` bounds some queues.

        A queue without room is left out, and its part goes to the others.
        """
        bounds = {queue: bound for queue in self._weights if (bound := min(queue_room.get(queue, room), room)) > 0}
        deficits = {queue: self._deficits[queue] for queue in bounds}
        counts = dict.fromkeys(bounds, 0)
        parts = self._parts(bounds)
        left = min(room, sum(bounds.values()))
        while left:
            for queue, part in parts.items():
                deficits[queue] += part
            first = max(parts, key=deficits.__getitem__)
            picks = left if len(parts) == 1 else 1
            deficits[first] -= picks
            counts[first] += picks
            left -= picks
            if counts[first] == bounds[first]:
                parts = self._parts([queue for queue in parts if queue != first])
        order = sorted(counts, key=lambda queue: (round(deficits[queue], 6), self._weights[queue]), reverse=True)
        return tuple(Share(queue, counts[queue], bounds[queue] if queue in queue_room else None) for queue in order)

    def _parts(self, queues: Collection[str]) -> dict[str, float]:
        """The part of one pick that each of these queues is due."""
        total = sum(self._weights[queue] for queue in queues)
        return {queue: self._weights[queue] / total for queue in queues}

    def record_claim(self, shares: Sequence[Share], leases: Sequence[Lease]) -> None:
        """Update the deficits by the jobs that a claim has brought."""
        if len(self._weights) == 1:
            return  # a single queue is owed nothing
        got = Counter(lease.queue for lease in leases)
        full = {share.queue for share in shares if got[share.queue] >= share.count}
        bounded = {share.queue for share in shares if share.limit is not None and got[share.queue] >= share.limit}
        self._deficits |= {share.queue: 0.0 for share in shares if share.queue not in full}
        while full:
            picks = sum(got[queue] for queue in full)
            parts = self._parts(full)
            deficits = {queue: self._deficits[queue] + picks * parts[queue] - got[queue] for queue in full}
            capped = {queue for queue in full & bounded if deficits[queue] > 0}
            if not capped:
                self._deficits |= {
                    queue: min(max(some, -limits.ITEMS), limits.ITEMS) for queue, some in deficits.items()
                }
                return
            self._deficits |= dict.fromkeys(capped, 0.0)  # their bound, not the others, kept them from more
            full -= capped


class Prefetch:
    """How many jobs to claim before there is a slot for them: as many as end in two rounds, while jobs are short."""

    def __init__(self) -> None:
        self.reset()

    @property
    def count(self) -> int:
        """How many jobs to claim beyond the free slots."""
        return self._count

    def reset(self) -> None:
        """Forget the durations seen so far: jobs turned out to be long."""
        self._mean_us = float(PREFETCH_FIRST_MEAN_US)
        self._count = 0

    def record_durations(self, durations: Sequence[int]) -> None:
        """Update the mean duration by the jobs of one round, in microseconds."""
        if durations:
            weight = min(1.0, len(durations) / PREFETCH_FULL_WEIGHT_JOBS)
            self._mean_us += weight * (sum(durations) / len(durations) - self._mean_us)
            self._count = 2 * len(durations) if self._mean_us < PREFETCH_MAX_MEAN_US else 0
