"""Queues as a whole."""

from collections.abc import Sequence

from packhorse.model.job import State
from packhorse.model.queue import ENQUEUED, QueueStats, queue_stats
from packhorse.stores import edge
from packhorse.stores.redis.jobs import counts_of
from packhorse.stores.redis.keyspace import Keyspace

_PAST = (ENQUEUED, State.DONE, State.DEAD, State.CANCELLED)


class RedisQueues:
    """The queues facet."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    async def pause(self, queues: Sequence[str]) -> None:
        """Pause queues: they take jobs and give none."""
        edge.queues(queues)
        await self._keyspace.run("pause", queues=list(queues))

    async def resume(self, queues: Sequence[str]) -> None:
        """Resume queues: they give jobs again."""
        edge.queues(queues)
        await self._keyspace.run("resume", queues=list(queues))

    async def stats(self) -> list[QueueStats]:
        """Return every queue by name: its counts, whether it is paused, its oldest ready and next due time."""
        fields, paused, moments, rows = await self._keyspace.run("stats")
        counts, still = counts_of(fields), {queue.decode(errors="replace") for queue in paused}
        past = {
            rows[at].decode(errors="replace"): dict(zip(_PAST, map(int, rows[at + 1 : at + 5]), strict=True))
            for at in range(0, len(rows), 5)
        }
        times = {
            queue.decode(errors="replace"): (int(ready) if ready else None, int(due) if due else None)
            for queue, ready, due in zip(moments[::3], moments[1::3], moments[2::3], strict=True)
        }
        stats = []
        for name in sorted(counts.keys() | still):
            oldest_ready, next_due = times.get(name, (None, None))
            stats.append(
                queue_stats(
                    name,
                    paused=name in still,
                    counts=counts.get(name, {}),
                    past=past.get(name, {}),
                    oldest_ready=oldest_ready,
                    next_due=next_due,
                )
            )
        return stats
