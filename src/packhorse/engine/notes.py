"""Progress on its way to the store: the latest word of each job, now and then, and the last one before its settlement."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from packhorse.engine.bell import Bell
from packhorse.engine.context import Context
from packhorse.engine.settler import Ended
from packhorse.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease
from packhorse.stores.contract import Store

EVERY = 100_000


class Notes:
    """Keeps only the latest note of each attempt; one that the store refuses is dropped."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._bell = Bell(clock)
        self._latest: dict[Context, bytes] = {}
        self._writing = asyncio.Lock()  # an older note must not be written after a newer one

    def put(self, ctx: Context, data: bytes) -> None:
        """Note how far an attempt is; from any thread."""
        self._latest[ctx] = data
        self._bell.ring_from_outside()

    @property
    def waiting(self) -> list[tuple[Lease, bytes]]:
        """The notes that wait for the store; from any thread."""
        return [(ctx.lease, data) for ctx, data in tuple(self._latest.items())]

    async def run(self) -> None:
        """Write notes until cancelled."""
        while True:
            await self._bell.wait()
            await self.flush()
            await self._clock.sleep(EVERY)

    async def flush(self) -> None:
        """Write what is there; what a store does not answer is written with the next ones."""
        with suppress(StoreUnavailable, OutcomeUnknown):
            while some := tuple(self._latest)[: caps.ITEMS]:
                async with self._writing:
                    await self._write(some)

    async def write_last(self, batch: Iterable[Ended]) -> None:
        """Write the last notes of attempts that are about to be settled; raises if the store does not answer."""
        if self._latest or self._writing.locked():
            async with self._writing:
                await self._write(dict.fromkeys(ended.ctx for ended in batch if ended.ctx is not None))

    async def _write(self, ctxs: Iterable[Context]) -> None:
        some = [(ctx, self._latest[ctx]) for ctx in ctxs if ctx in self._latest]
        if not some:
            return
        try:
            await self._store.jobs.note([(ctx.lease, data) for ctx, data in some])
        except StoreError as error:
            if isinstance(error, StoreUnavailable | OutcomeUnknown) and not isinstance(error, StoreFull):
                raise
        for ctx, data in some:
            if self._latest.get(ctx) is data:
                del self._latest[ctx]
