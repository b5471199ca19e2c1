"""What has ended and is not settled yet."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from packhorse.engine.bell import Bell
from packhorse.engine.context import Context
from packhorse.model import caps
from packhorse.model.effect import Publish, bytes_of
from packhorse.model.ids import JobId
from packhorse.model.job import Failure
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Again, Dead, Done, Held

Deaths = Callable[[JobId, bytes], tuple[Publish, ...]]


def untold(_id: JobId, _headers: bytes) -> tuple[Publish, ...]:
    """What is told of a dead job, by its id and headers, where no feature wants to tell anything."""
    return ()


class Ended(msgspec.Struct, frozen=True):
    """The end of a lease: its settlement, and the attempt if there was one to run."""

    settlement: Settlement
    ctx: Context | None


class Settler:
    """Collects settlements; gives them out in bounded batches, in order."""

    def __init__(self, bell: Bell, deaths: Deaths = untold) -> None:
        self._bell, self._deaths = bell, deaths
        self._waiting: deque[Ended] = deque()
        self._holding: deque[Context] = deque()

    def put(self, ctx: Context | None, settlement: Settlement) -> None:
        """Something ended, told on the loop."""
        if self._holding:
            self._hold()
        if isinstance(settlement.outcome, Dead) and not settlement.effects:
            told = self._deaths(settlement.lease.id, settlement.lease.headers)
            settlement = msgspec.structs.replace(settlement, effects=told) if told else settlement
        if not self._waiting:  # else it was rung, and whoever comes takes all
            self._bell.ring()
        self._waiting.append(Ended(settlement, ctx))

    def record(self, ctx: Context) -> "asyncio.Future[None]":
        """Have it written that an attempt begins; done when the store has answered."""
        ctx.step += 1
        ctx.recorded = asyncio.get_running_loop().create_future()
        self.put(ctx, Settlement(ctx.lease, Held(ctx.step)))
        return ctx.recorded

    def hold(self, ctx: Context) -> None:
        """An attempt wants something written while it goes on; from any thread."""
        self._holding.append(ctx)
        self._bell.ring_from_outside()

    def _hold(self) -> None:
        """What attempts want written, before their ends."""
        while self._holding:
            ctx = self._holding.popleft()
            while effects := ctx.take_held():
                self._waiting.append(Ended(Settlement(ctx.lease, Held(ctx.step), effects), ctx))

    def wake(self) -> None:
        """Something changed that an exchange should look at."""
        self._bell.ring()

    def wake_from_thread(self) -> None:
        """Something changed in a thread that an exchange should look at."""
        self._bell.ring_from_outside()

    @property
    def backlog(self) -> int:
        """How many settlements wait for the store."""
        return len(self._waiting) + len(self._holding)

    @property
    def waiting(self) -> list[Settlement]:
        """The settlements that wait for the store; from any thread."""
        return [ended.settlement for ended in self._waiting.copy()]

    def take(self, max_bytes: int) -> list[Ended]:
        """The next settlements for one exchange: as many as fit, and at least one."""
        self._hold()
        batch: list[Ended] = []
        effects = size = 0
        while self._waiting and len(batch) < caps.ITEMS:
            settlement = self._waiting[0].settlement
            outcome = settlement.outcome
            if type(outcome) is Done and not settlement.effects:  # by far the most: no call for each
                size += len(outcome.result or b"")
            else:
                effects += len(settlement.effects)
                size += _bytes_of(settlement)
            if batch and (effects > caps.EFFECTS_PER_CALL or size > max_bytes):
                break
            batch.append(self._waiting.popleft())
        return batch

    def put_back(self, batch: Sequence[Ended]) -> None:
        """Take settlements again that were not answered, before all others."""
        self._waiting.extendleft(reversed(batch))


def _bytes_of(settlement: Settlement) -> int:
    """How many bytes of results, failures and effects a settlement brings."""
    match settlement.outcome:
        case Done(result):
            size = len(result or b"")
        case Again(error=Failure() as error) | Dead(error=error):
            size = len(error.message) + len(error.traceback)
        case _:
            size = 0
    return size + bytes_of(settlement.effects)
