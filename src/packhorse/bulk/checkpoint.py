"""How far a bulk job has come, in a record: a later attempt continues there."""

import msgspec

from packhorse.bulk.order import BulkCounts
from packhorse.errors import RecordConflict
from packhorse.jobs.bulk_action import PassPlace
from packhorse.model import limits
from packhorse.model.effect import Put
from packhorse.model.ids import JobId
from packhorse.stores.contract import Store

KIND = "packhorse.bulk"
KEPT_US = 30 * 86_400 * limits.SECOND


class Progressed(msgspec.Struct, frozen=True):
    """Written before each page: what the page holds, what was counted before it, and what comes behind it."""

    total: int
    behind: PassPlace = PassPlace()
    counts: BulkCounts = BulkCounts()
    page: tuple[JobId, ...] = ()


_DECODER = msgspec.json.Decoder(Progressed)


class Checkpoint:
    """The record of one bulk job. Each write expects the one before it: an attempt that has lost its lease stops here.

    ``version`` is also about the moment of the last write, by the clock of the store.
    """

    def __init__(self, store: Store, job: JobId, begun: int) -> None:
        self._records, self._key, self._expires = store.records, job.hex(), begun + KEPT_US
        self.version = 0

    async def read(self) -> Progressed | None:
        """Read what an earlier attempt left; None for the first one."""
        [record] = await self._records.get(KIND, [self._key])
        if record is None:
            return None
        self.version = record.version
        return _DECODER.decode(record.value)

    async def write(self, progressed: Progressed) -> None:
        """Keep how far it has come; RecordConflict if another attempt of the job goes on with it."""
        value = msgspec.json.encode(progressed)
        put = Put(KIND, self._key, value, expect=self.version, expires=self._expires)
        [version] = await self._records.put([put])
        if version is None:
            raise RecordConflict
        self.version = version
