"""Concurrent enqueues share a round trip: what is asked for while one is under way goes with the next.

Without timers: a call that is alone goes at once. Each caller has its own verdict.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from packhorse.errors import DurabilityNotMet, OutcomeUnknown, StoreUnavailable
from packhorse.model import limits
from packhorse.model.job import NewJob, Receipt

TOGETHER = 1 << 20  # bytes of payload that several callers may share a trip with
_CANCELLED = (
    "The trip to the store was cancelled: the jobs may or may not be stored. Enqueue them again with the same ids"
)

Enqueue = Callable[[Sequence[NewJob]], Awaitable[list[Receipt]]]


class _Caller:
    """The jobs of one call, and where its receipts are waited for."""

    __slots__ = ("jobs", "receipts", "size")

    def __init__(self, jobs: Sequence[NewJob], receipts: "asyncio.Future[list[Receipt]]") -> None:
        self.jobs, self.receipts = jobs, receipts
        self.size = len(jobs[0].payload) if len(jobs) == 1 else sum(len(job.payload) for job in jobs)


class EnqueueBatcher:
    """Takes jobs to a store, one trip at a time."""

    def __init__(self, enqueue: Enqueue) -> None:
        self._enqueue = enqueue
        self._waiting: deque[_Caller] = deque()
        self._under_way = False
        self._going: asyncio.Task[None] | None = None

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store the jobs of one caller, all or none."""
        if self._under_way:
            caller = _Caller(jobs, asyncio.get_running_loop().create_future())
            self._waiting.append(caller)
            return await caller.receipts
        self._under_way = True
        try:
            return await self._enqueue(jobs)
        finally:
            self._under_way = False
            if self._waiting:
                self._under_way = True
                self._going = asyncio.create_task(self._go())

    async def _go(self) -> None:
        """Send batches until no caller waits."""
        aboard: list[_Caller] = []
        try:
            while aboard := self._aboard():
                await self._take(aboard)
        finally:
            self._under_way = False
            for caller in aboard:  # only if this was cancelled, as are those who wait below
                if not caller.receipts.done():
                    caller.receipts.set_exception(OutcomeUnknown(_CANCELLED))
            for caller in self._waiting:
                caller.receipts.cancel()
            self._waiting.clear()

    def _aboard(self) -> list[_Caller]:
        """Those who go with the next trip, in the order they came; who no longer waits stays behind."""
        aboard: list[_Caller] = []
        count = size = 0
        while self._waiting:
            caller = self._waiting[0]
            if not caller.receipts.done():
                count, size = count + len(caller.jobs), size + caller.size
                if aboard and (count > limits.ITEMS or size > TOGETHER):
                    break
                aboard.append(caller)
            self._waiting.popleft()
        return aboard

    async def _take(self, callers: list[_Caller]) -> None:
        try:
            receipts = await self._enqueue([job for caller in callers for job in caller.jobs])
        except Exception as error:  # noqa: BLE001 - each caller gets it
            if len(callers) == 1 or isinstance(error, StoreUnavailable | OutcomeUnknown | DurabilityNotMet):
                for caller in callers:
                    if not caller.receipts.done():
                        caller.receipts.set_exception(error)
                return
            for caller in callers:  # nothing was written: who is to blame must not spoil it for the others
                await self._take([caller])
            return
        each = iter(receipts)
        for caller in callers:
            mine = [next(each) for _ in caller.jobs]
            if not caller.receipts.done():
                caller.receipts.set_result(mine)
