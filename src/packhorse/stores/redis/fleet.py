"""The workers that live."""

import msgspec

from packhorse.model.worker import Worker
from packhorse.stores import edge
from packhorse.stores.redis.keyspace import Keyspace
from packhorse.stores.redis.packing import MOMENT


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
        return sorted((_worker(row) for row in rows), key=lambda worker: (worker.name, worker.id))


def _worker(row: bytes) -> Worker:
    worker = msgspec.msgpack.decode(row[MOMENT.size :], type=Worker)
    return msgspec.structs.replace(worker, seen=int(MOMENT.unpack_from(row)[0]))
