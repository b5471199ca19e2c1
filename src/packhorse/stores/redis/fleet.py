"""The workers that live."""

import msgspec

from packhorse.model.worker import Worker, stored_worker
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import MOMENT

_WORKER = msgspec.msgpack.Decoder(Worker)


class Fleet:
    """The fleet facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def beat(self, worker: Worker, ttl: int) -> None:
        """Say that a worker lives, for so long; no time at all says goodbye."""
        edge.ttl(ttl)
        await self._keyspace.run("beat", worker=worker.id, ttl=ttl, about=msgspec.msgpack.encode(worker))

    async def workers(self) -> list[Worker]:
        """Answer the workers whose last beat is not over, by name."""
        rows = await self._keyspace.run("workers")
        said = [stored_worker(_WORKER, row[MOMENT.size :], int(MOMENT.unpack_from(row)[0])) for row in rows]
        return sorted(filter(None, said), key=lambda worker: (worker.name, worker.id))
