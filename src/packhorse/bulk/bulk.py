"""Bulk actions of an app: a few jobs at once, many by a job of Packhorse's own."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from packhorse.audit.actor import acting_as
from packhorse.audit.entry import AuditOutcome
from packhorse.bulk import bulk_pass
from packhorse.bulk.checkpoint import KIND
from packhorse.bulk.order import BulkCounts, BulkOrder
from packhorse.engine.attempt import current_attempt
from packhorse.engine.context import current
from packhorse.engine.judge import Cause
from packhorse.engine.signals import Cancel
from packhorse.errors import EmptyFilter, InvalidOption
from packhorse.jobs.bulk_action import CANCEL, DROP, PROMOTE, REPLAY, BulkAction, batches
from packhorse.jobs.handle import JobHandle
from packhorse.jobs.job import JobState, state_of
from packhorse.jobs.options import check_names
from packhorse.jobs.search import Search
from packhorse.model import limits
from packhorse.model.duration import Duration
from packhorse.model.effect import Put
from packhorse.model.ids import JobId, id_text, new_id

if TYPE_CHECKING:
    from packhorse.jobs.client import Client
    from packhorse.system_queue import SystemQueue

INLINE_JOBS = 1000  # more are left to a job
SAMPLE_IDS = 10
ATTEMPTS = 20
OTHER_KEYWORDS = frozenset({"ids", "all", "limit", "dry_run"})  # all others are filters


class BulkKeywords(TypedDict, total=False):
    """Which jobs: by ids, by filters as in ``app.find``, or all of them."""

    ids: Sequence[str]
    all: bool
    queue: str | None
    task: str | None
    state: JobState | str | None
    reason: str | None
    key: str | None
    tenant: str | None
    header: tuple[str, Any] | None
    error: str | None
    group: str | None
    enqueued_after: datetime | None
    limit: int | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class BulkRun:
    """A bulk action that was counted, done, or begun."""

    action: str
    """What was asked for: ``replay``, ``cancel``, ``drop`` or ``promote``."""
    total: int | None
    """How many jobs were selected; None if the job of the action counts them."""
    sample: tuple[str, ...]
    """The ids of the first ten."""
    counts: BulkCounts | None
    """What was done; None if a job does it."""
    job: JobHandle[BulkCounts] | None = None
    """The job that does it: more than 1,000 jobs were selected. It has progress, and can be cancelled."""
    unchanged: Mapping[str, JobState] = field(default_factory=dict)
    """Where ``ids`` were given: those of jobs that stayed as they were, with their states."""

    async def result(self, timeout: Duration | None = None) -> BulkCounts:
        """Wait for the end of the job, if there is one, and return what was done."""
        if self.counts is not None:
            return self.counts
        assert self.job is not None
        return await self.job.result(timeout)


class Bulk:
    """Actions on all jobs that filters select: replay, cancel, drop, promote."""

    def __init__(self, client: "Client", system: "SystemQueue") -> None:
        self._client = client
        self._task = system.task(name="packhorse.bulk", attempts=ATTEMPTS)(self._handler())

    async def replay(self, **chosen: Unpack[BulkKeywords]) -> BulkRun:
        """Run dead or cancelled jobs again, with all their attempts."""
        return await self._run(REPLAY, chosen)

    async def cancel(self, **chosen: Unpack[BulkKeywords]) -> BulkRun:
        """Cancel jobs; the workers of running ones are asked to stop them."""
        return await self._run(CANCEL, chosen)

    async def drop(self, **chosen: Unpack[BulkKeywords]) -> BulkRun:
        """Remove jobs with all their data, whatever their state."""
        return await self._run(DROP, chosen)

    async def promote(self, **chosen: Unpack[BulkKeywords]) -> BulkRun:
        """Make scheduled jobs, and jobs that wait for a person, ready now."""
        return await self._run(PROMOTE, chosen)

    # -- what the surfaces share

    async def order(self, action: BulkAction, search: Search, limit: int | None = None) -> BulkOrder:
        """Make an order for the jobs that are there at this moment; a wrong filter is refused."""
        if limit is not None:
            limits.within("limit", limit, 1, 2**53)
        action.searches(search)
        until = await (await self._client.store()).ping()
        return BulkOrder(action=action.name, search=search, limit=limit, until=until, actor=self._client.audit.actor)

    async def preview(self, order: BulkOrder, report: bulk_pass.Report = bulk_pass.no_report) -> BulkRun:
        """Count the jobs of an order, and change none; ``report`` gets the number of each page."""
        total, sample = 0, list[JobId]()
        async for ids, _ in bulk_pass.selected(self._client, order):
            total, sample = total + len(ids), (sample or ids[:SAMPLE_IDS])
            report(len(ids))
        return BulkRun(order.action, total, _sample(sample), BulkCounts())

    async def run_here(self, order: BulkOrder, report: bulk_pass.Report = bulk_pass.no_report) -> BulkCounts:
        """Act on all jobs of an order in this process; ``report`` gets the number of each page."""
        async with self._client.audit.announced(order.action, filter=order.filter) as operation:
            counts = await bulk_pass.run_here(self._client, order, report)
            operation.count = counts.changed
        return counts

    async def run_ids(
        self, action: BulkAction, texts: Sequence[str], search: Search, *, dry_run: bool = False
    ) -> BulkRun:
        """Act on the jobs with these ids, if they are in a state that the action is for and the search names."""
        store, ids = await self._client.store(), {self._client.job_id(text): text for text in texts}
        states = {one.state for one in action.searches(search)}
        found = [job for some in batches([*ids]) for job in await store.jobs.get(some, bodies=False) if job is not None]
        fit = [job.id for job in found if job.state.value in states and action.is_for(job)]
        changed: list[JobId] = []
        if not dry_run:
            async with self._client.audit.announced(action.name, target=_listed(texts)) as operation:
                changed = await bulk_pass.act(store, action, fit)
                operation.count = len(changed)
        return BulkRun(
            action=action.name,
            total=len(fit),
            sample=_sample(fit),
            counts=BulkCounts(len(ids), len(changed)),
            unchanged=await self._states({one: text for one, text in ids.items() if one not in set(changed)}),
        )

    # -- inside

    async def _states(self, ids: Mapping[JobId, str]) -> dict[str, JobState]:
        jobs = [job for some in batches([*ids]) for job in await self._client.get(some, bodies=False)]
        return {text: state_of(job) for text, job in zip(ids.values(), jobs, strict=True)}

    async def _run(self, action: BulkAction, chosen: BulkKeywords) -> BulkRun:
        check_names(chosen, BulkKeywords.__annotations__)
        named = {name: value for name, value in chosen.items() if name not in OTHER_KEYWORDS and value is not None}
        ids, dry_run, search = chosen.get("ids"), chosen.get("dry_run", False), Search(**cast(Any, named))
        async with self._client.audit.refusals(action.name, filter=named):
            _check(action, chosen, named.keys())
            order = await self.order(action, search, chosen.get("limit"))
        if ids is not None:
            return await self.run_ids(action, ids, search, dry_run=dry_run)
        return await self.preview(order) if dry_run else await self._begin(order)

    async def _begin(self, order: BulkOrder) -> BulkRun:
        """Act on the jobs at once if they are few, else leave them to a job."""
        found: list[JobId] = []
        async for ids, _ in bulk_pass.selected(self._client, order):
            found += ids
            if len(found) > INLINE_JOBS:
                return BulkRun(order.action, None, _sample(found), None, await self._enqueue(order))
        async with self._client.audit.announced(order.action, filter=order.filter) as operation:
            changed = await bulk_pass.act(await self._client.store(), order.bulk_action, found)
            operation.count = len(changed)
        return BulkRun(order.action, len(found), _sample(found), BulkCounts(len(found), len(changed)))

    async def _enqueue(self, order: BulkOrder) -> JobHandle[BulkCounts]:
        chosen_id = f"bulk:{id_text(new_id())}"
        operation = id_text(self._client.job_id(chosen_id))
        await self._client.audit.record(
            order.action, filter=order.filter, outcome=AuditOutcome.STARTED, operation_id=operation
        )
        return await self._task.using(id=chosen_id).enqueue(order)

    def _handler(self) -> Callable[[BulkOrder], Coroutine[Any, Any, BulkCounts]]:
        async def bulk(order: BulkOrder) -> BulkCounts:
            attempt, audit = current_attempt(), self._client.audit
            with acting_as(order.actor):
                async with audit.recorded(
                    order.action, filter=order.filter, operation_id=current().job_id
                ) as operation:

                    def report(counts: BulkCounts, total: int) -> None:
                        operation.count = counts.changed
                        _show_progress(counts, total)

                    try:
                        counts = await bulk_pass.run_job(self._client, order, attempt.lease.id, report)
                    except asyncio.CancelledError:
                        if attempt.stop_cause is Cause.CANCEL:
                            raise Cancel("it was cancelled between two pages") from None
                        raise
                    operation.count = counts.changed
            attempt.effects.append(Put(KIND, attempt.lease.id.hex(), None))
            return counts

        return bulk


def _check(action: BulkAction, chosen: BulkKeywords, filters: Collection[str]) -> None:
    """Refuse a call that does not say in one way which jobs are meant."""
    ids, everything = chosen.get("ids"), chosen.get("all", False)
    if ids is not None:
        if isinstance(ids, str):
            raise InvalidOption("ids", ids, "give a list of ids")
        if everything or set(filters) - {"state"} or chosen.get("limit") is not None:
            raise InvalidOption("ids", ids, "with ids, no limit and no filter but state can be given")
    elif filters and everything:
        raise InvalidOption("all", everything, "with all=True, no filter can be given")
    elif not filters and not everything:
        raise EmptyFilter(action.name)


def _show_progress(counts: BulkCounts, total: int) -> None:
    percent = min(100.0, 100 * counts.seen / total) if total else 100.0
    current().progress(percent, f"{counts.seen:,} of {total:,}")


def _sample(ids: Sequence[JobId]) -> tuple[str, ...]:
    return tuple(id_text(one) for one in ids[:SAMPLE_IDS])


def _listed(texts: Sequence[str]) -> str:
    """Return ids as the audit shows them."""
    more = len(texts) - SAMPLE_IDS
    return " ".join(texts[:SAMPLE_IDS]) + (f" and {more} more" if more > 0 else "")
