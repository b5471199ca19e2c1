"""The workers that live."""

import msgspec

from packhorse.model.worker import Worker, stored_worker
from packhorse.stores import edge
from packhorse.stores.sqlite.seat import Seat
from packhorse.stores.sqlite.step import SQL, Step

_WORKER = msgspec.json.Decoder(Worker)


class SQLiteFleet:
    """The workers that live."""

    def __init__(self, database: Seat) -> None:
        self._database = database

    async def beat(self, worker: Worker, ttl: int) -> None:
        """Say that a worker lives, for so long."""
        edge.ttl(ttl)

        def work(step: Step) -> None:
            if ttl:
                step.run(SQL.beat, worker.id, step.now + ttl, step.now, msgspec.json.encode(worker))
            else:
                step.run(SQL.leave, worker.id)

        await self._database.write(work, urgent=True)

    async def workers(self) -> list[Worker]:
        """Answer the workers whose last beat is not over, by name."""

        def work(step: Step) -> list[Worker]:
            said = [stored_worker(_WORKER, facts, seen) for facts, seen in step.rows(SQL.living, step.now)]
            return sorted(filter(None, said), key=lambda worker: (worker.name, worker.id))

        return await self._database.read(work)
