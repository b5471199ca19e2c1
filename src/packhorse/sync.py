"""The app for code without an event loop: scripts, threads, Flask, Django, notebooks."""

from datetime import datetime
from types import TracebackType
from typing import Any, Self

from packhorse.app import App
from packhorse.jobs.call import Call
from packhorse.jobs.flows import Flow
from packhorse.jobs.portal import PORTAL
from packhorse.jobs.sending import Parcel, send_blocking
from packhorse.jobs.sync import SyncHandle, SyncQueue, forward
from packhorse.schedules.book import Schedules


class SyncApp:
    """An app whose calls block. All of them share one event loop, on a thread that starts with the first call."""

    def __init__(self, app: App) -> None:
        self._async = app

    open = forward(App.open)
    close = forward(App.close)
    find = forward(App.find)

    def enqueue(self, *calls: Call[Any] | Flow[Any], within: object | None = None) -> list[SyncHandle[Any]]:
        """Enqueue several calls, of any tasks and queues, all or none; ``within`` a connection of yours, on this thread."""
        parcel = Parcel(calls, within)
        receipts = send_blocking(self._async.desk, parcel.jobs, parcel.within)
        return [SyncHandle(handle) for handle in parcel.handles(receipts)]

    def job(self, id: str) -> SyncHandle[Any]:
        """The handle of a job by its id, wherever it was enqueued."""
        return SyncHandle(self._async.job(id))

    @property
    def schedules(self) -> "SyncSchedules":
        """The schedules of the app."""
        return SyncSchedules(self._async.schedules)

    def queue(self, name: str) -> SyncQueue:
        """A queue by its name; what is said about its jobs is said with ``app.queue``."""
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
        """Run one once more, for this logical time or for now, whatever its rule says."""
        return SyncHandle(PORTAL.run(self._async.run(name, at=at)))
