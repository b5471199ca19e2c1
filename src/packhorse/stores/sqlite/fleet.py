"""The workers that live."""

import msgspec

from packhorse.model.worker import WorkerInfo, stored_worker
from packhorse.stores import edge
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork

_WORKER = msgspec.json.Decoder(WorkerInfo)


class SQLiteFleet:
    """The workers that live."""

    def __init__(self, database: StoreHandle) -> None:
        self._database = database

    async def beat(self, worker: WorkerInfo, ttl: int) -> None:
        """Say that a worker lives, for so long."""
        edge.ttl(ttl)

        def work(step: UnitOfWork) -> None:
            if ttl:
                step.run(SQL.beat, worker.id, step.now + ttl, step.now, msgspec.json.encode(worker))
            else:
                step.run(SQL.leave, worker.id)

        await self._database.write(work, urgent=True)

    async def workers(self) -> list[WorkerInfo]:
        """Answer the workers whose last beat is not over, by name."""

        def work(step: UnitOfWork) -> list[WorkerInfo]:
            workers = [stored_worker(_WORKER, facts, seen) for facts, seen in step.rows(SQL.live_workers, step.now)]
            return sorted(filter(None, workers), key=lambda worker: (worker.name, worker.id))

        return await self._database.read(work)
