"""The workers that live."""

import msgspec

from packhorse.model.worker import WorkerInfo
from packhorse.stores import edge
from packhorse.stores.postgres import rows
from packhorse.stores.postgres.namespace import Namespace


class PostgresFleet:
    """The fleet of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    async def beat(self, worker: WorkerInfo, ttl: int) -> None:
        """Say that a worker lives, for so long; no time at all says goodbye."""
        edge.ttl(ttl)
        if ttl == 0:
            await self._namespace.write("goodbye", worker.id)
            return
        body = msgspec.json.encode(worker)
        await self._namespace.write("beat", worker.id, worker.name, body, ttl, self._namespace.now())

    async def workers(self) -> list[WorkerInfo]:
        """Answer the workers whose last beat is not over, by name."""
        found = await self._namespace.read("workers", self._namespace.now())
        return [worker for row in found if (worker := rows.worker(row)) is not None]
