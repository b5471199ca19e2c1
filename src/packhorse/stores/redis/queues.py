"""Queues as a whole."""

from collections.abc import Sequence

from packhorse.model.queue import QueueStats
from packhorse.stores import edge
from packhorse.stores.redis.jobs import counts_of
from packhorse.stores.redis.keyspace import Keyspace


class Queues:
    """The queues facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def pause(self, queues: Sequence[str]) -> None:
        """A paused queue takes jobs and gives none."""
        edge.queues(queues)
        await self._keyspace.run("pause", queues=list(queues))

    async def resume(self, queues: Sequence[str]) -> None:
        """A resumed queue gives jobs again."""
        edge.queues(queues)
        await self._keyspace.run("resume", queues=list(queues))

    async def stats(self) -> list[QueueStats]:
        """Answer every queue by name, with its counts, whether it is paused, its oldest ready and its next due moment."""
        fields, paused, moments = await self._keyspace.run("stats")
        counts, still = counts_of(fields), {queue.decode(errors="replace") for queue in paused}
        times = {
            queue.decode(errors="replace"): (int(ready) if ready else None, int(due) if due else None)
            for queue, ready, due in zip(moments[::3], moments[1::3], moments[2::3], strict=True)
        }
        return [
            QueueStats(name, name in still, counts.get(name, {}), *times.get(name, (None, None)))
            for name in sorted(counts.keys() | still)
        ]
