"""Progress on its way to the store: the latest word of each job, now and then."""

from packhorse.engine.bell import Bell
from packhorse.engine.context import Context
from packhorse.errors import StoreError
from packhorse.model import caps
from packhorse.model.clock import Clock
from packhorse.stores.contract import Store

EVERY = 100_000


class Notes:
    """Keeps only the latest note of each attempt; losing one to a failing store is no loss."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._bell = Bell(clock)
        self._latest: dict[Context, bytes] = {}

    def put(self, ctx: Context, data: bytes) -> None:
        """Note how far an attempt is; from any thread."""
        self._latest[ctx] = data
        self._bell.ring_from_outside()

    async def run(self) -> None:
        """Write notes until cancelled."""
        while True:
            await self._bell.wait()
            await self.flush()
            await self._clock.sleep(EVERY)

    async def flush(self) -> None:
        """Write what is there."""
        while self._latest:
            some = [(ctx, self._latest.pop(ctx)) for ctx in tuple(self._latest)[: caps.ITEMS]]
            try:
                await self._store.jobs.note([(ctx.lease, data) for ctx, data in some if not ctx.ended])
            except StoreError:
                return
