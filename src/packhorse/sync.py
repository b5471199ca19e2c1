"""The app for code without an event loop: scripts, threads, Flask, Django, notebooks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from packhorse.alerts.registry import Alerts
from packhorse.alerts.targets import AnyTarget
from packhorse.app import App
from packhorse.audit.audit import Audit
from packhorse.bulk.bulk import Bulk, BulkKeywords, BulkRun
from packhorse.bulk.order import BulkCounts
from packhorse.dead_letters.dead_jobs import DeadJobs, DeadSelection
from packhorse.dead_letters.edited import EditedReplay
from packhorse.events.event import Gap, JobEvent
from packhorse.jobs.call import Call
from packhorse.jobs.enqueue_request import EnqueueRequest
from packhorse.jobs.plans import Plan
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.sync import SyncHandle, SyncQueue, each, forward, forward_each
from packhorse.schedules.registry import Schedules

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class SyncApp:
    """An app whose calls block. All of them share one event loop, on a thread that starts with the first call."""

    def __init__(self, app: App) -> None:
        self._async = app

    open = forward(App.open)
    close = forward(App.close)
    find = forward(App.find)
    jobs = forward_each(App.jobs)

    @overload
    def enqueue(self, one: Call[A] | Plan[A], /, *, within: object | None = ...) -> tuple[SyncHandle[A]]: ...
    @overload
    def enqueue(
        self, one: Call[A] | Plan[A], two: Call[B] | Plan[B], /, *, within: object | None = ...
    ) -> tuple[SyncHandle[A], SyncHandle[B]]: ...
    @overload
    def enqueue(
        self,
        one: Call[A] | Plan[A],
        two: Call[B] | Plan[B],
        three: Call[C] | Plan[C],
        /,
        *,
        within: object | None = ...,
    ) -> tuple[SyncHandle[A], SyncHandle[B], SyncHandle[C]]: ...
    @overload
    def enqueue(self, *calls: Call[Any] | Plan[Any], within: object | None = ...) -> tuple[SyncHandle[Any], ...]: ...
    def enqueue(self, *calls: Call[Any] | Plan[Any], within: object | None = None) -> tuple[SyncHandle[Any], ...]:
        """Enqueue several calls, of any tasks and queues, all or none; ``within`` a connection of yours, on this thread."""
        handles = EnqueueRequest(self._async.client, calls, within).send_blocking()
        return tuple(SyncHandle(handle) for handle in handles)

    def job(self, id: str) -> SyncHandle[Any]:
        """Give the handle of a job by its id, or by its chosen id."""
        return SyncHandle(self._async.job(id))

    @property
    def schedules(self) -> "SyncSchedules":
        """The schedules of the app."""
        return SyncSchedules(self._async.schedules)

    @property
    def bulk(self) -> "SyncBulk":
        """Actions on all jobs that filters select."""
        return SyncBulk(self._async.bulk)

    @property
    def alerts(self) -> "SyncAlerts":
        """The alerts of the app."""
        return SyncAlerts(self._async.alerts)

    @property
    def audit(self) -> "SyncAudit":
        """The audit of the app."""
        return SyncAudit(self._async.audit)

    @property
    def dead(self) -> "SyncDeadJobs":
        """The dead jobs of the app."""
        return SyncDeadJobs(self._async.dead)

    def events(
        self,
        *names: str,
        queue: str | None = None,
        task: str | None = None,
        after: str | datetime | None = None,
        results: bool = False,
        follow: bool = True,
    ) -> Iterator[JobEvent | Gap]:
        """Iterate over events as ``app.events`` does, from the first ``next`` on; it blocks until there is one."""
        stream = self._async.events(*names, queue=queue, task=task, after=after, results=results, follow=follow)
        return each(stream)

    def queue(self, name: str) -> SyncQueue:
        """Give a queue by its name; options of its jobs are set with ``app.queue``."""
        return SyncQueue(self._async.queue(name))

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._async)


class SyncBulkRun:
    """A bulk action that was counted, done or begun, for code without an event loop."""

    def __init__(self, run: BulkRun) -> None:
        self._async = run
        self.action, self.total, self.sample, self.counts = run.action, run.total, run.sample, run.counts
        self.unchanged = run.unchanged

    @property
    def job(self) -> SyncHandle[BulkCounts] | None:
        """The job that does it, if there is one."""
        return None if self._async.job is None else SyncHandle(self._async.job)

    result = forward(BulkRun.result)


class SyncBulk:
    """Actions on all jobs that filters select, for code without an event loop."""

    def __init__(self, bulk: Bulk) -> None:
        self._async = bulk

    def replay(self, **chosen: Unpack[BulkKeywords]) -> SyncBulkRun:
        """Run dead or cancelled jobs again, with all their attempts."""
        return SyncBulkRun(PORTAL.run(self._async.replay(**chosen)))

    def cancel(self, **chosen: Unpack[BulkKeywords]) -> SyncBulkRun:
        """Cancel jobs; the workers of running ones are asked to stop them."""
        return SyncBulkRun(PORTAL.run(self._async.cancel(**chosen)))

    def drop(self, **chosen: Unpack[BulkKeywords]) -> SyncBulkRun:
        """Remove jobs with all their data, whatever their state."""
        return SyncBulkRun(PORTAL.run(self._async.drop(**chosen)))

    def promote(self, **chosen: Unpack[BulkKeywords]) -> SyncBulkRun:
        """Make scheduled jobs, and jobs that wait for a person, ready now."""
        return SyncBulkRun(PORTAL.run(self._async.promote(**chosen)))


class SyncAlerts:
    """The alerts of an app, for code without an event loop."""

    def __init__(self, alerts: Alerts) -> None:
        self._async = alerts

    find = forward(Alerts.find)
    deliveries = forward(Alerts.deliveries)
    silence = forward(Alerts.silence)
    silences = forward(Alerts.silences)
    end_silence = forward(Alerts.end_silence)
    remove = forward(Alerts.remove)
    declare = forward(Alerts.declare)
    evaluate = forward(Alerts.evaluate)

    def test(self, target: str | AnyTarget) -> SyncHandle[Any]:
        """Send a test through the same path as an alert, once, and give the handle of its delivery."""
        return SyncHandle(PORTAL.run(self._async.test(target)))


class SyncAudit:
    """The audit of an app, for code without an event loop."""

    def __init__(self, audit: Audit) -> None:
        self._async, self.acting = audit, audit.acting

    record = forward(Audit.record)
    entries = forward(Audit.entries)
    latest = forward(Audit.latest)
    __iter__ = forward_each(Audit.__aiter__)


class SyncDeadJobs:
    """The dead jobs of an app, for code without an event loop."""

    def __init__(self, dead: DeadJobs) -> None:
        self._async = dead

    find = forward(DeadJobs.find)
    get = forward(DeadJobs.get)
    groups = forward(DeadJobs.groups)

    def drop(
        self, ids: str | Sequence[str] | None = None, *, dry_run: bool = False, **chosen: Unpack[DeadSelection]
    ) -> SyncBulkRun:
        """The same method, blocking."""
        return SyncBulkRun(PORTAL.run(self._async.drop(ids, dry_run=dry_run, **chosen)))

    @overload
    def replay(self, ids: str, *, arguments: Mapping[str, Any], dry_run: bool = False) -> EditedReplay: ...
    @overload
    def replay(
        self, ids: str | Sequence[str] | None = None, *, dry_run: bool = False, **chosen: Unpack[DeadSelection]
    ) -> SyncBulkRun: ...
    def replay(self, ids: Any = None, **options: Any) -> Any:
        """The same method, blocking."""
        answer = PORTAL.run(self._async.replay(ids, **options))
        return SyncBulkRun(answer) if isinstance(answer, BulkRun) else answer


class SyncSchedules:
    """The schedules of an app, for code without an event loop."""

    def __init__(self, schedules: Schedules) -> None:
        self._async = schedules

    declare = forward(Schedules.declare)
    sync = forward(Schedules.sync)
    put = forward(Schedules.put)
    pause = forward(Schedules.pause)
    resume = forward(Schedules.resume)
    remove = forward(Schedules.remove)
    get = forward(Schedules.get)
    find = forward(Schedules.find)
    next = forward(Schedules.next)
    fire = forward(Schedules.fire)
    backfill = forward(Schedules.backfill)

    def run(self, name: str, *, at: datetime | None = None) -> SyncHandle[Any]:
        """Run a schedule once more, for this logical time or for now, outside its rule."""
        return SyncHandle(PORTAL.run(self._async.run(name, at=at)))
