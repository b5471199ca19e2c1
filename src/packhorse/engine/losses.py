"""Leases that were lost, as events for other processes, with the names of the workers that held them."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from packhorse.errors import StoreError
from packhorse.model import limits
from packhorse.model.effect import Publish
from packhorse.model.event import LOSSES
from packhorse.model.ids import id_text
from packhorse.model.lease import Lost
from packhorse.stores.contract import Store

MAX_LOSSES = 10_000
MAX_NAMES = 10_000


class Loss(msgspec.Struct, frozen=True):
    """An event of the stream: the job, the id of the worker, its name if it is known, and the attempts of the job."""

    job: str
    worker: str
    name: str | None = None
    attempt: int = 0


class WorkerNames:
    """Remembers the names of workers longer than their beats last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: OrderedDict[bytes, str] = OrderedDict()

    async def refresh(self) -> None:
        """Learn the names of the workers that live."""
        for worker in await self._store.fleet.workers():
            self._names[worker.id] = worker.name
            self._names.move_to_end(worker.id)
        while len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)

    async def of(self, workers: Iterable[bytes]) -> dict[bytes, str]:
        """Give the names of workers; those that are not known are left out."""
        asked = set(workers)
        if not asked <= self._names.keys():
            with suppress(StoreError):
                await self.refresh()
        return {worker: self._names[worker] for worker in asked if worker in self._names}


async def publish_losses(store: Store, lost: Sequence[Lost], names: dict[bytes, str]) -> None:
    """Publish an event for each loss, and keep the newest of the stream up to their number."""
    events = [Loss(id_text(one.id), one.worker.hex(), names.get(one.worker), one.attempt) for one in lost]
    offsets = await store.streams.publish([Publish(LOSSES, msgspec.json.encode(loss), loss.job) for loss in events])
    if offsets and offsets[-1] > MAX_LOSSES:
        await store.streams.trim(LOSSES, offsets[-1] - MAX_LOSSES + 1, limits.LOOKED_AT)
