"""Queues as a whole."""

from collections.abc import Sequence

from packhorse.model.queue import QueueStats
from packhorse.stores import edge
from packhorse.stores.postgres import rows
from packhorse.stores.postgres.namespace import Namespace


class PostgresQueues:
    """The queues of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    async def pause(self, queues: Sequence[str]) -> None:
        """A paused queue takes jobs and gives none."""
        edge.queues(queues)
        await self._namespace.write("pause", queues)

    async def resume(self, queues: Sequence[str]) -> None:
        """A resumed queue gives jobs again."""
        edge.queues(queues)
        await self._namespace.write("resume", queues, self._namespace.now())

    async def stats(self) -> list[QueueStats]:
        """Answer every queue by name, with its counts, whether it is paused, its oldest ready and its next due moment."""
        return [rows.stats(row) for row in await self._namespace.read("stats")]
