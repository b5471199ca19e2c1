"""One pass over the jobs of an order: count them, or act on them page by page, here or in a job that can be continued."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from packhorse.bulk.checkpoint import Checkpoint, Progressed
from packhorse.bulk.order import BulkCounts, BulkOrder
from packhorse.jobs.bulk_action import BulkAction, PassPlace, batches, pages
from packhorse.model.ids import JobId
from packhorse.stores.contract import Store

if TYPE_CHECKING:
    from packhorse.jobs.client import Client

Report = Callable[[int], object]


def no_report(_count: int) -> None:
    """Report nothing."""


async def selected(
    client: "Client", order: BulkOrder, place: PassPlace | None = None, *, seen: int = 0, own: JobId | None = None
) -> AsyncIterator[tuple[list[JobId], PassPlace]]:
    """Find the jobs of an order a page at a time, up to its limit, without those that came later and without ``own``."""
    async for jobs, behind in pages(client, order.bulk_action.searches(order.search), place):
        found = [job.stored.id for job in jobs if job.stored.enqueued_at <= order.until and job.stored.id != own]
        if order.limit is not None:
            found = found[: order.limit - seen]
        seen += len(found)
        yield found, behind
        if order.limit is not None and seen >= order.limit:
            return


async def act(store: Store, action: BulkAction, ids: Sequence[JobId]) -> list[JobId]:
    """Act on these jobs, and return those that it changed."""
    changed: list[JobId] = []
    for some in batches(ids):
        changed += [one for one, done in zip(some, await action.write(store, some), strict=True) if done]
    return changed


async def run_here(client: "Client", order: BulkOrder, report: Report = no_report) -> BulkCounts:
    """Act on the jobs of an order; ``report`` gets the number of each page."""
    counts, store = BulkCounts(), await client.store()
    async for ids, _ in selected(client, order):
        counts = counts.plus(len(ids), len(await act(store, order.bulk_action, ids)))
        report(len(ids))
    return counts


async def run_job(
    client: "Client", order: BulkOrder, job: JobId, report: Callable[[BulkCounts, int], object]
) -> BulkCounts:
    """Act on the jobs of an order as the job with this id, from where an earlier attempt stopped.

    Returns the counts of all attempts. The page that an earlier attempt was about to write is written again.
    """
    store = await client.store()
    checkpoint = Checkpoint(store, job, order.until)
    progressed = await checkpoint.read()
    if progressed is None:
        progressed = Progressed(sum([len(ids) async for ids, _ in selected(client, order, own=job)]))
        await checkpoint.write(progressed)
    page, counts = progressed.page, progressed.counts
    counts = counts.plus(len(page), await _finish(store, order, page, checkpoint.version))
    async for ids, behind in selected(client, order, progressed.behind, seen=counts.seen, own=job):
        if ids:
            await checkpoint.write(Progressed(progressed.total, behind, counts, tuple(ids)))
            counts = counts.plus(len(ids), len(await act(store, order.bulk_action, ids)))
            report(counts, progressed.total)
    return counts


async def _finish(store: Store, order: BulkOrder, page: Sequence[JobId], since: int) -> int:
    """Act on the rest of a page that an earlier attempt had begun to write, and return how many jobs both changed.

    Jobs that were brought into another state meanwhile are left alone.
    """
    jobs = await store.jobs.get(page, bodies=False) if page else []
    action, states = order.bulk_action, order.states
    done = sum(action.was_done(job, since) for job in jobs)
    left = [job.id for job in jobs if job is not None and not action.was_done(job, since) and job.state in states]
    return done + len(await act(store, action, left))
