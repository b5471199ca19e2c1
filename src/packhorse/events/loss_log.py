"""Which worker held a lease that was lost: events of the worker that took it back."""

from bisect import insort
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from packhorse.engine.losses import MAX_LOSSES, Loss
from packhorse.errors import InvalidId
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.model.event import LOSSES
from packhorse.model.ids import JobId, parse_id
from packhorse.stores.contract import Store

WAIT_US: Final = limits.SECOND  # for the event of a loss that has just happened: it comes after the entry of the log
POLL_US: Final = 100_000

_DECODER = msgspec.json.Decoder(Loss)


class LossLog:
    """The losses that are kept, by job."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = 0
        self._known: OrderedDict[JobId, list[tuple[int, int, Loss]]] = OrderedDict()

    async def find(self, wanted: Sequence[tuple[JobId, int]]) -> dict[tuple[JobId, int], Loss]:
        """The losses of jobs at moments, as far as they were published."""
        await self._read()
        found = self._found(wanted)
        newest = max(at for _, at in wanted)
        if len(found) < len(set(wanted)) and await self._store.ping() - newest < WAIT_US:
            until = SYSTEM.steady() + WAIT_US
            while len(found) < len(set(wanted)) and SYSTEM.steady() < until:
                await SYSTEM.sleep(POLL_US)
                await self._read()
                found = self._found(wanted)
        return found

    def _found(self, wanted: Sequence[tuple[JobId, int]]) -> dict[tuple[JobId, int], Loss]:
        found = {}
        for job, at in wanted:
            for published, _, loss in self._known.get(job, ()):
                if published >= at:
                    found[job, at] = loss
                    break
        return found

    async def _read(self) -> None:
        while events := await self._store.streams.read(LOSSES, after=self._after, limit=limits.LOOKED_AT):
            for event in events:
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, InvalidId):
                    loss = _DECODER.decode(event.data)
                    job = parse_id(loss.job)
                    insort(self._known.setdefault(job, []), (event.at, event.offset, loss))
                    self._known.move_to_end(job)
            self._after = events[-1].offset
            while len(self._known) > MAX_LOSSES:
                self._known.popitem(last=False)
