"""How many jobs to ask for, and from which queues."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from packhorse.errors import InvalidOption
from packhorse.model import caps
from packhorse.model.lease import Lease, Share

SHORT = 20_000  # jobs that take less, in microseconds, may be leased before there is a slot for them
FIRST_GUESS = 1_000_000


class Shares:
    """Divides picks between queues by their weights.

    What a queue did not get while it had jobs is carried over, so that weights hold also when one job is asked for at
    a time; the part of a queue that is empty, or may have no more, goes to the others and is not owed to it.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        if not weights:
            raise InvalidOption("queues", {}, "name at least one queue")
        for queue, weight in weights.items():
            caps.name("queue", queue)
            caps.within(f"weight of {queue}", weight, 1, 1_000_000)
        self._weights = dict(weights)
        self._owed = dict.fromkeys(weights, 0.0)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that are served."""
        return tuple(self._weights)

    def divide(self, room: int, most: Mapping[str, int]) -> tuple[Share, ...]:
        """Shares of so many picks, those who are still owed most first; ``most`` bounds queues that have a bound.

        A queue that may have none is not asked, and its part goes to the others.
        """
        bounds = {queue: bound for queue in self._weights if (bound := min(most.get(queue, room), room)) > 0}
        owed = {queue: self._owed[queue] for queue in bounds}
        counts = dict.fromkeys(bounds, 0)
        parts = self._parts(bounds)
        left = min(room, sum(bounds.values()))
        while left:
            for queue, part in parts.items():
                owed[queue] += part
            first = max(parts, key=owed.__getitem__)
            picks = left if len(parts) == 1 else 1
            owed[first] -= picks
            counts[first] += picks
            left -= picks
            if counts[first] == bounds[first]:
                parts = self._parts([queue for queue in parts if queue != first])
        order = sorted(counts, key=lambda queue: (round(owed[queue], 6), self._weights[queue]), reverse=True)
        return tuple(Share(queue, counts[queue], bounds[queue] if queue in most else None) for queue in order)

    def _parts(self, queues: Collection[str]) -> dict[str, float]:
        """What each of these queues is due of one pick."""
        total = sum(self._weights[queue] for queue in queues)
        return {queue: self._weights[queue] / total for queue in queues}

    def answered(self, shares: Sequence[Share], leases: Sequence[Lease]) -> None:
        """Note what came of an ask."""
        if len(self._weights) == 1:
            return  # nobody to owe anything to
        got = Counter(lease.queue for lease in leases)
        at_most = {share.queue for share in shares if share.most is not None and got[share.queue] >= share.most}
        full = {share.queue for share in shares if got[share.queue] >= share.count}
        self._owed |= {share.queue: 0.0 for share in shares if share.queue not in full}
        while full:
            picks = sum(got[queue] for queue in full)
            owed = {queue: self._owed[queue] + picks * part - got[queue] for queue, part in self._parts(full).items()}
            held_up = {queue for queue in full & at_most if owed[queue] > 0}
            if not held_up:
                self._owed |= {queue: min(max(some, -caps.ITEMS), caps.ITEMS) for queue, some in owed.items()}
                return
            self._owed |= dict.fromkeys(held_up, 0.0)
            full -= held_up


class Ahead:
    """How many jobs may be leased before there is a slot for them: as many as end in two rounds, while jobs are short."""

    def __init__(self) -> None:
        self.forget()

    @property
    def count(self) -> int:
        """Jobs to lease beyond the free slots."""
        return self._count

    def forget(self) -> None:
        """Start anew: jobs turned out to be long."""
        self._mean = float(FIRST_GUESS)
        self._count = 0

    def ended(self, durations: Sequence[int]) -> None:
        """Note how long the jobs of a round took."""
        if durations:
            weight = min(1.0, len(durations) / 20)
            self._mean += weight * (sum(durations) / len(durations) - self._mean)
            self._count = 2 * len(durations) if self._mean < SHORT else 0
