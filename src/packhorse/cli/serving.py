"""One worker in this process, from its start to its end."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from packhorse.app import App
from packhorse.cli import exits
from packhorse.cli.frame import trouble
from packhorse.cli.lifeline import Lifeline
from packhorse.cli.live import living
from packhorse.cli.notify import keep_notifying, notify
from packhorse.cli.signals import hearing
from packhorse.cli.values import meant
from packhorse.engine import garbage
from packhorse.engine.context import Context
from packhorse.engine.worker import Worker
from packhorse.errors import PackhorseError
from packhorse.model import caps
from packhorse.stores.url import shown

ORPHANED = 5.0  # seconds beyond the grace for a worker whose supervisor is gone
LATE = 2.0  # seconds a stopped worker's process may take to end
NAMED = 10
LOG = logging.getLogger("packhorse.worker")


@dataclass(frozen=True, slots=True)
class Serving:
    """How a worker is run here; ``options`` are those of ``app.worker``."""

    options: dict[str, Any]
    console: Console | None = None  # where there is a line at the foot
    lifeline: Lifeline | None = None


def serve(app: App, how: Serving, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> int:
    """Work until a signal; answers the exit code."""
    service = Service(app, how)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        try:
            code = runner.run(service.run())
        except asyncio.CancelledError:
            code = service.code
        except PackhorseError as error:  # said now: closing the loop may not come to an end
            told = trouble(error, app.url)
            told.show()
            code = told.exit_code
        _leave_in_time(code)
    return code


class Service:
    """One life of a worker, and what it tells of its end."""

    def __init__(self, app: App, how: Serving) -> None:
        self._app, self._how = app, how
        self._worker: Worker | None = None
        self._task: asyncio.Task[Any] | None = None
        self.code = exits.OK

    async def run(self) -> int:
        """Work until a signal."""
        self._task = asyncio.current_task()
        with garbage.seldom(), hearing(asyncio.get_running_loop(), self._signalled):
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._app)
                summary = None
                if self._how.console is not None:
                    summary = await stack.enter_async_context(living(self._app.telemetry, self._how.console))
                worker = await stack.enter_async_context(self._app.worker(**self._how.options))
                self._worker = worker
                if summary is not None:
                    summary.worker = worker
                self._tell_ready(worker)
                watchdog = asyncio.create_task(keep_notifying())
                stack.callback(watchdog.cancel)
                await worker.stopped()
                notify("STOPPING=1")
        return self.code

    def _tell_ready(self, worker: Worker) -> None:
        settings = worker.settings
        queues = " ".join(f"{queue}:{weight}" for queue, weight in settings.queues.items())
        for queue in settings.queues:
            if queue not in self._app.queues:
                near = meant(queue, self._app.queues)
                LOG.warning("The app names no queue %r%s", queue, near or ": only jobs sent there by name are run")
        for queue in self._how.options.get("slots") or ():
            if queue not in settings.queues:
                near = meant(queue, settings.queues)
                LOG.warning("--slots names %r, which this worker does not serve%s", queue, near or ": it has no effect")
        if not self._app.registry.names and not self._app.registry.takes_any:
            LOG.warning("The app has no task: import the modules that hold them where the app is made")
        where = shown(self._app.url)
        LOG.info("%s works on %s: queues %s, %d slots", worker.name, where, queues, settings.concurrency)
        notify("READY=1")
        if self._how.lifeline is not None:
            self._how.lifeline.ready()
            self._how.lifeline.watch(self._orphaned, settings.grace / caps.SECOND + ORPHANED)

    def _signalled(self, number: signal.Signals) -> None:
        if self._worker is None:
            self.code = exits.STOPPED + number
            assert self._task is not None
            self._task.cancel()
        elif not self._worker.stopping:
            self._stop(self._worker, number.name)
        else:
            self.code = exits.STOPPED + number
            LOG.warning("%s again: stopping now. %s", number.name, _told(self._worker.running))
            self._worker.stop()

    def _orphaned(self) -> None:
        if self._worker is not None and not self._worker.stopping:
            self._stop(self._worker, "The supervisor is gone")

    def _stop(self, worker: Worker, why: str) -> None:
        count, grace = len(worker.running), worker.settings.grace / caps.SECOND
        if count:
            jobs = "1 running job" if count == 1 else f"{count} running jobs"
            LOG.info("%s: finishing %s within %g s. Once more stops now.", why, jobs, grace)
        else:
            LOG.info("%s: stopping, nothing is running", why)
        worker.stop()


def _told(running: tuple[Context, ...]) -> str:
    if not running:
        return "Nothing was running."
    named = [f"{ctx.lease.task} ({ctx.job})" for ctx in running[:NAMED]]
    more = [f"{len(running) - NAMED} more"] if len(running) > NAMED else []
    return f"Still running, to be run again: {', '.join(named + more)}"


def _leave_in_time(code: int) -> None:
    """All is settled: end the process even if a thread or a task of the user's code does not."""

    def leave() -> None:
        logging.shutdown()
        os._exit(code)

    timer = threading.Timer(LATE, leave)
    timer.daemon = True
    timer.start()
