"""Live workers."""

import msgspec

from packhorse.model.worker import WorkerInfo, stored_worker
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import MOMENT

_WORKER = msgspec.msgpack.Decoder(WorkerInfo)


class RedisFleet:
    """The fleet facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def beat(self, worker: WorkerInfo, ttl: int) -> None:
        """Record that a worker is alive for this time; a time of zero removes it."""
        edge.ttl(ttl)
        await self._keyspace.run("beat", worker=worker.id, ttl=ttl, about=msgspec.msgpack.encode(worker))

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers whose last beat has not expired, by name."""
        rows = await self._keyspace.run("workers")
        found = [stored_worker(_WORKER, row[MOMENT.size :], int(MOMENT.unpack_from(row)[0])) for row in rows]
        return sorted(filter(None, found), key=lambda worker: (worker.name, worker.id))
