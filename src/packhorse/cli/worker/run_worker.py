"""Run one worker in this process, from its start to its end."""

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
from packhorse.app_worker import AppWorker
from packhorse.cli import exit_codes
from packhorse.cli.command import cli_error
from packhorse.cli.values import suggestion
from packhorse.cli.worker.signals import handle_signals
from packhorse.cli.worker.status_line import show_status
from packhorse.cli.worker.systemd import keep_notifying, notify
from packhorse.cli.worker.worker_link import WorkerLink
from packhorse.engine import gc_tuning
from packhorse.engine.context import Context
from packhorse.errors import PackhorseError
from packhorse.model import limits
from packhorse.stores.url import shown

ORPHAN_EXIT_SECONDS = 5.0  # time beyond the grace for a worker whose supervisor is gone
EXIT_SECONDS = 2.0  # time for a stopped worker's process to end
MAX_JOBS_NAMED = 10
LOG = logging.getLogger("packhorse.worker")


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """How to run a worker here; ``options`` are those of ``app.worker``."""

    options: dict[str, Any]
    console: Console | None = None  # with a status line
    link: WorkerLink | None = None


def run_worker(app: App, how: WorkerRun, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> int:
    """Run a worker until a signal; return the exit code."""
    service = Service(app, how)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        try:
            code = runner.run(service.run())
        except asyncio.CancelledError:
            code = service.code
        except PackhorseError as error:  # report it now: closing the loop may hang
            failure = cli_error(error, app.url)
            failure.show()
            code = failure.exit_code
        _exit_in_time(code)
    return code


class Service:
    """A worker from its start to its end, with the signals that stop it."""

    def __init__(self, app: App, how: WorkerRun) -> None:
        self._app, self._how = app, how
        self._worker: AppWorker | None = None
        self._task: asyncio.Task[Any] | None = None
        self.code = exit_codes.OK

    async def run(self) -> int:
        """Run until a signal; return the exit code."""
        self._task = asyncio.current_task()
        with gc_tuning.relaxed_gc(), handle_signals(asyncio.get_running_loop(), self._signalled):
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._app)
                status = None
                if self._how.console is not None:
                    status = await stack.enter_async_context(show_status(self._app.telemetry, self._how.console))
                worker = await stack.enter_async_context(self._app.worker(**self._how.options))
                self._worker = worker
                if status is not None:
                    status.worker = worker
                self._report_ready(worker)
                watchdog = asyncio.create_task(keep_notifying())
                stack.callback(watchdog.cancel)
                await worker.stopped()
                notify("STOPPING=1")
        return self.code

    def _report_ready(self, worker: AppWorker) -> None:
        settings = worker.settings
        queues = " ".join(f"{queue}:{weight}" for queue, weight in settings.queues.items())
        for queue in settings.queues:
            if queue not in self._app.queues:
                near = suggestion(queue, self._app.queues)
                LOG.warning("The app has no queue %r%s", queue, near or ": only jobs enqueued there by name are run")
        for queue in self._how.options.get("queue_concurrency") or ():
            if queue not in settings.queues:
                near = suggestion(queue, settings.queues)
                LOG.warning(
                    "--queue-concurrency names %r, which this worker does not serve%s",
                    queue,
                    near or ": it has no effect",
                )
        if not self._app.registry.names and not self._app.registry.takes_any:
            LOG.warning("The app has no tasks: import their modules where the app is made")
        where = shown(self._app.url)
        LOG.info("Worker %s is ready on %s: queues %s, %d slots", worker.name, where, queues, settings.concurrency)
        notify("READY=1")
        if self._how.link is not None:
            self._how.link.ready()
            self._how.link.watch(self._orphaned, settings.grace / limits.SECOND + ORPHAN_EXIT_SECONDS)

    def _signalled(self, number: signal.Signals) -> None:
        if self._worker is None:
            self.code = exit_codes.STOPPED + number
            assert self._task is not None
            self._task.cancel()
        elif not self._worker.stopping:
            self._stop(self._worker, number.name)
        else:
            self.code = exit_codes.STOPPED + number
            LOG.warning("%s again: stopping now. %s", number.name, _interrupted(self._worker.running))
            self._worker.stop()

    def _orphaned(self) -> None:
        if self._worker is not None and not self._worker.stopping:
            self._stop(self._worker, "The supervisor is gone")

    def _stop(self, worker: AppWorker, why: str) -> None:
        count, grace = len(worker.running), worker.settings.grace / limits.SECOND
        if count:
            jobs = "1 running job" if count == 1 else f"{count} running jobs"
            LOG.info("%s: finishing %s within %g s; a second signal stops now", why, jobs, grace)
        else:
            LOG.info("%s: stopping; no job is running", why)
        worker.stop()


def _interrupted(running: tuple[Context, ...]) -> str:
    if not running:
        return "No job was running."
    named = [f"{ctx.task} ({ctx.job_id})" for ctx in running[:MAX_JOBS_NAMED]]
    more = [f"{len(running) - MAX_JOBS_NAMED} more"] if len(running) > MAX_JOBS_NAMED else []
    return f"Still running, will be run again: {', '.join(named + more)}"


def _exit_in_time(code: int) -> None:
    """End the process after a short time even if a thread or task of the user's code does not end."""

    def exit_now() -> None:
        logging.shutdown()
        os._exit(code)

    timer = threading.Timer(EXIT_SECONDS, exit_now)
    timer.daemon = True
    timer.start()
