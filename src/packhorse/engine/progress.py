"""Progress on its way to the store: the latest word of each job, now and then, and the last one before its settlement."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from packhorse.engine.attempt import Attempt
from packhorse.engine.settlement_queue import PendingSettlement
from packhorse.engine.wakeup import Wakeup
from packhorse.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from packhorse.model import limits
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease
from packhorse.stores.contract import Store

WRITE_EVERY_US = 100_000


class ProgressWriter:
    """Keeps only the latest note of each attempt; one that the store refuses is dropped."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._wakeup = Wakeup(clock)
        self._latest: dict[Attempt, bytes] = {}
        self._writing = asyncio.Lock()  # an older note must not be written after a newer one

    def put(self, attempt: Attempt, data: bytes) -> None:
        """Note how far an attempt is; from any thread."""
        self._latest[attempt] = data
        self._wakeup.set_threadsafe()

    @property
    def waiting(self) -> list[tuple[Lease, bytes]]:
        """The notes that wait for the store; from any thread."""
        return [(attempt.lease, data) for attempt, data in tuple(self._latest.items())]

    def of(self, attempt: Attempt) -> list[tuple[Lease, bytes]]:
        """The note of an attempt that waits for the store, if there is one; from any thread."""
        data = self._latest.get(attempt)
        return [] if data is None else [(attempt.lease, data)]

    def drop(self, attempt: Attempt) -> None:
        """Forget the note of an attempt that was settled in a transaction."""
        self._latest.pop(attempt, None)

    async def run(self) -> None:
        """Write notes until cancelled."""
        while True:
            await self._wakeup.wait()
            await self.flush()
            await self._clock.sleep(WRITE_EVERY_US)

    async def flush(self) -> None:
        """Write what is there; what a store does not answer is written with the next ones."""
        with suppress(StoreUnavailable, OutcomeUnknown):
            while some := tuple(self._latest)[: limits.ITEMS]:
                async with self._writing:
                    await self._write(some)

    async def write_last(self, batch: Iterable[PendingSettlement]) -> None:
        """Write the last notes of attempts that are about to be settled; raises if the store does not answer."""
        if self._latest or self._writing.locked():
            async with self._writing:
                await self._write(dict.fromkeys(ended.attempt for ended in batch if ended.attempt is not None))

    async def _write(self, attempts: Iterable[Attempt]) -> None:
        some = [(attempt, self._latest[attempt]) for attempt in attempts if attempt in self._latest]
        if not some:
            return
        try:
            await self._store.jobs.note([(attempt.lease, data) for attempt, data in some])
        except StoreError as error:
            if isinstance(error, StoreUnavailable | OutcomeUnknown) and not isinstance(error, StoreFull):
                raise
        for attempt, data in some:
            if self._latest.get(attempt) is data:
                del self._latest[attempt]
