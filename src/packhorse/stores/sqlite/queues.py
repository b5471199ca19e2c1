"""Queues as a whole."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from packhorse.model.job import State
from packhorse.model.queue import Counts, QueueStats, queue_stats
from packhorse.stores import edge
from packhorse.stores.sqlite.handle import StoreHandle
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork


def counts(step: UnitOfWork) -> Mapping[str, Counts]:
    """The jobs of every queue by state."""
    found: defaultdict[str, dict[State, int]] = defaultdict(dict)
    for queue, state, count in step.rows(SQL.all_counts):
        found[queue][State(state)] = found[queue].get(State(state), 0) + count  # names with replacements may be equal
    return dict(found)


class SQLiteQueues:
    """Queues as a whole."""

    def __init__(self, database: StoreHandle) -> None:
        self._database = database

    async def pause(self, queues: Sequence[str]) -> None:
        """A paused queue takes jobs and gives none."""
        await self._set(queues, 1)

    async def resume(self, queues: Sequence[str]) -> None:
        """A resumed queue gives jobs again."""
        await self._set(queues, 0)

    async def _set(self, queues: Sequence[str], paused: int) -> None:
        edge.queues(queues)

        def work(step: UnitOfWork) -> None:
            for queue in queues:
                step.run(SQL.pause, queue, paused)
            step.work = not paused

        await self._database.write(work)

    async def stats(self) -> list[QueueStats]:
        """Answer every queue by name."""

        def work(step: UnitOfWork) -> list[QueueStats]:
            by_queue, paused = counts(step), {name for (name,) in step.rows(SQL.paused)}
            found = []
            for (queue,) in step.rows(SQL.queue_names):
                (oldest,) = step.row(SQL.oldest_ready, queue)
                first = step.row(SQL.first_due, queue)
                found.append(
                    queue_stats(
                        queue,
                        paused=queue in paused,
                        counts=by_queue.get(queue, {}),
                        past=dict(step.rows(SQL.past_counts_of, queue)),
                        oldest_ready=oldest,
                        next_due=first[0] if first else None,
                    )
                )
            return found

        return await self._database.read(work)
