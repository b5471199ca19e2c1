"""Leases that are run together: collected until there are enough, or until the first has waited long enough."""

from collections.abc import Callable

from packhorse.engine.context import Context
from packhorse.engine.deadlines import Deadline, Deadlines


class Batches:
    """One open batch for each entry. The first of a batch leads it, the others ride along; ``full`` gets the leader."""

    def __init__(self, deadlines: Deadlines, full: Callable[[Context], None]) -> None:
        self._deadlines, self._full = deadlines, full
        self._open: dict[str, tuple[Context, Deadline]] = {}

    def put(self, ctx: Context) -> None:
        """Add one to the open batch of its entry."""
        batching = ctx.entry.batching
        assert batching is not None
        name = ctx.entry.name
        if name in self._open:
            leader = self._open[name][0]
            leader.riders = (*leader.riders, ctx)
        else:
            self._open[name] = (ctx, self._deadlines.after(batching.wait, lambda: self._close(name, ctx)))
        if 1 + len(self._open[name][0].riders) >= batching.size:
            self._close(name, self._open[name][0])

    def collected(self, queue: str) -> int:
        """How many of a queue wait for others."""
        return sum(len(leader.together) for leader, _ in self._open.values() if leader.lease.queue == queue)

    def _close(self, name: str, leader: Context) -> None:
        open_one = self._open.get(name)
        if open_one is not None and open_one[0] is leader:
            del self._open[name]
            open_one[1].call_off()
            self._full(leader)

    def take_back(self) -> list[Context]:
        """All that has been collected; it will not be run."""
        leaders = [leader for leader, _ in self._open.values()]
        for _, deadline in self._open.values():
            deadline.call_off()
        self._open.clear()
        return [ctx for leader in leaders for ctx in leader.together]

    def remove(self, ctx: Context) -> None:
        """One of those collected is not to be run."""
        for name, (leader, deadline) in tuple(self._open.items()):
            if ctx in leader.riders:
                leader.riders = tuple(rider for rider in leader.riders if rider is not ctx)
            elif ctx is leader:
                deadline.call_off()
                del self._open[name]
                riders, leader.riders = leader.riders, ()
                for rider in riders:
                    self.put(rider)
