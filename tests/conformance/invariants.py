"""What is true of every store at every moment."""

from collections import Counter
from collections.abc import Mapping

from packhorse.model.job import State
from packhorse.stores.contract import Store
from tests.factories import found

MOST = 500


async def check(store: Store) -> None:
    """Every job is found once, stands where get says it stands, and is counted there."""
    jobs = await found(store, limit=1000)
    ids = [job.id for job in jobs]
    assert len(set(ids)) == len(ids), "a job is found in more than one place"
    for start in range(0, len(ids), MOST):
        assert await store.jobs.get(ids[start : start + MOST]) == jobs[start : start + MOST]
    assert plain(await store.jobs.count()) == Counter((job.queue, job.state) for job in jobs)


def plain(counts: Mapping[str, Mapping[State, int]]) -> Counter[tuple[str, State]]:
    """Counts without the zeros, which a store may leave out."""
    return Counter({(queue, State(state)): n for queue, by in counts.items() for state, n in by.items() if n})
