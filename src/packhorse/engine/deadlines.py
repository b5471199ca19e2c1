"""Moments at which something is to be done, kept by one sleeper."""

import heapq
from collections.abc import Callable
from itertools import count

from packhorse.engine.wakeup import Wakeup
from packhorse.model.clock import Clock

SWEEP_MIN_TIMERS = 100


class Deadline:
    """One thing to do at a steady moment, unless it is called off."""

    __slots__ = ("_owner", "action", "at")

    def __init__(self, at: int, action: Callable[[], None], owner: "Deadlines") -> None:
        self.at = at
        self.action: Callable[[], None] | None = action
        self._owner = owner

    def call_off(self) -> None:
        """Let the moment pass."""
        if self.action is not None:
            self.action = None
            self._owner.called_off()


class Deadlines:
    """Runs actions on the loop when their moments come, soonest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wakeup = Wakeup(clock)
        self._heap: list[tuple[int, int, Deadline]] = []
        self._numbers = count()
        self._off = 0

    def after(self, duration: int, action: Callable[[], None]) -> Deadline:
        """Do something once so much time has passed."""
        deadline = Deadline(self._clock.steady() + duration, action, self)
        heapq.heappush(self._heap, (deadline.at, next(self._numbers), deadline))
        if self._heap[0][2] is deadline:
            self._wakeup.set()
        return deadline

    def called_off(self) -> None:
        """One more will not be needed; once those are many and most, they are thrown out before their moment."""
        self._off += 1
        if self._off > SWEEP_MIN_TIMERS and 2 * self._off > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._off = 0

    async def run(self) -> None:
        """Watch the clock until cancelled."""
        while True:
            now = self._clock.steady()
            while self._heap and (self._heap[0][0] <= now or self._heap[0][2].action is None):
                deadline = heapq.heappop(self._heap)[2]
                action, deadline.action = deadline.action, None
                if action is None:
                    self._off -= 1
                else:
                    action()
            await self._wakeup.wait(self._heap[0][0] - now if self._heap else None)
