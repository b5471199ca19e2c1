"""Leases that are run together: collected until there are enough, or until the first has waited long enough."""

import threading
from collections.abc import Callable

from packhorse.engine.attempt import Attempt
from packhorse.engine.deadlines import Deadline, Deadlines


class Batches:
    """One open batch for each entry. The first of a batch leads it, the others ride along; ``full`` gets the leader.

    The lock is for the keeper, which takes back what is collected while the loop is blocked.
    """

    def __init__(self, deadlines: Deadlines, full: Callable[[Attempt], None]) -> None:
        self._deadlines, self._full = deadlines, full
        self._open: dict[str, tuple[Attempt, Deadline]] = {}
        self._changing = threading.RLock()

    def put(self, attempt: Attempt) -> None:
        """Add one to the open batch of its entry."""
        batching = attempt.entry.batching
        assert batching is not None
        name = attempt.entry.name
        with self._changing:
            if name in self._open:
                leader = self._open[name][0]
                leader.followers = (*leader.followers, attempt)
            else:
                leader = attempt
                self._open[name] = (attempt, self._deadlines.after(batching.wait, lambda: self._close(name, attempt)))
        if len(leader.with_followers) >= batching.size:
            self._close(name, leader)

    def collected(self, queue: str) -> int:
        """How many of a queue wait for others."""
        return sum(len(leader.with_followers) for leader, _ in self._open.values() if leader.lease.queue == queue)

    def _close(self, name: str, leader: Attempt) -> None:
        with self._changing:
            open_one = self._open.get(name)
            if open_one is None or open_one[0] is not leader:
                return
            del self._open[name]
        open_one[1].call_off()
        self._full(leader)

    def take_back(self) -> list[Attempt]:
        """All that has been collected; it will not be run. From any thread; its deadline passes and finds nothing."""
        with self._changing:
            leaders = [leader for leader, _ in self._open.values()]
            self._open.clear()
            return [attempt for leader in leaders for attempt in leader.with_followers]

    def remove(self, attempt: Attempt) -> None:
        """One of those collected is not to be run."""
        with self._changing:
            for name, (leader, deadline) in tuple(self._open.items()):
                if attempt in leader.followers:
                    leader.followers = tuple(follower for follower in leader.followers if follower is not attempt)
                elif attempt is leader:
                    deadline.call_off()
                    del self._open[name]
                    followers, leader.followers = leader.followers, ()
                    for follower in followers:
                        self.put(follower)
