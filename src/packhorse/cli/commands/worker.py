"""`packhorse worker`: run jobs."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import click

from packhorse.cli import exit_codes
from packhorse.cli.command import Command
from packhorse.cli.screen import Screen, console, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Length, Numbers
from packhorse.cli.worker.log_format import FORMATS, LEVELS, has_own_logging, set_up_logging
from packhorse.cli.worker.signals import exit_on_early_sigterm
from packhorse.cli.worker.worker_link import WorkerLink, take_link
from packhorse.engine.worker import MIN_LEASE_US, Settings
from packhorse.errors import MissingExtra
from packhorse.model import limits
from packhorse.model.duration import micros

DEFAULTS = Settings()
HELP = f"""Run the jobs of an app until SIGTERM or Ctrl-C.

APP is module:app, or a module with one App. Without it the app is searched in app.py, tasks.py, jobs.py, main.py and
worker.py: in this folder, in src, and in the package of this folder.

After the first signal running jobs may end within the grace. A second signal stops them now; another worker runs them
again.

{exit_codes.TABLE}"""


@click.command("worker", cls=Command, help=HELP, short_help="Run the jobs of an app.")
@click.argument("module", metavar="[APP]", required=False)
@with_target
@click.option(
    "-q",
    "--queues",
    type=Numbers(),
    envvar="PACKHORSE_QUEUES",
    help="Queues with their weights: critical:6,default:3,low. Without it all queues of the app.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 10_000),
    envvar="PACKHORSE_CONCURRENCY",
    help="The most jobs to run at a time.",
    show_default=str(DEFAULTS.concurrency),
)
@click.option(
    "--queue-concurrency",
    type=Numbers(),
    envvar="PACKHORSE_QUEUE_CONCURRENCY",
    help="The most jobs of a queue to run at a time: email:5,pdf:2.",
)
@click.option(
    "--lease",
    type=Length(MIN_LEASE_US),
    envvar="PACKHORSE_LEASE",
    help="How long other workers wait before they take over the jobs of a dead worker.",
    show_default=f"{DEFAULTS.lease // limits.SECOND}s",
)
@click.option(
    "--grace",
    type=Length(),
    envvar="PACKHORSE_GRACE",
    help="How long running jobs may take to end after the first signal.",
    show_default=f"{DEFAULTS.grace // limits.SECOND}s",
)
@click.option(
    "--name", envvar="PACKHORSE_WORKER_NAME", help="The name of this worker in logs and lists.", show_default="host:pid"
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    envvar="PACKHORSE_PROCESSES",
    help="The number of worker processes to run; one that dies is started again.",
    show_default=True,
)
@click.option(
    "--check", is_flag=True, help="Run no jobs; check whether a worker of this name or host is alive (for probes)."
)
@click.option(
    "--loop",
    type=click.Choice(["auto", "asyncio", "uvloop"]),
    default="auto",
    envvar="PACKHORSE_LOOP",
    help="The event loop; auto means uvloop if it is installed.",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    envvar="PACKHORSE_LOG_LEVEL",
    help="The lowest level to log.",
    show_default=True,
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="plain",
    envvar="PACKHORSE_LOG_FORMAT",
    help="The format of log lines; ignored if the app sets up logging itself.",
    show_default=True,
)
@click.option(
    "--live/--no-live",
    default=True,
    envvar="PACKHORSE_LIVE",
    help="Show a status line on a terminal; not with --processes.",
)
@with_screen
def worker(module: str | None, target: CliTarget, screen: Screen, **options: Any) -> Any:
    """Run jobs, or check whether a worker is alive."""
    if module is not None:
        target = replace(target, app=module, typed=target.typed | {"app"})
    if options["check"]:
        from packhorse.cli.worker.check import check

        return check(target, options["name"], screen)
    if screen.json:
        raise click.UsageError("--json is for --check; for log lines as JSON use --log-format json.")
    return click.get_current_context().exit(_run(target, options))


def _run(target: CliTarget, options: dict[str, Any]) -> int:
    log = partial(set_up_logging, options["log_level"], options["log_format"])
    link = take_link()
    exit_on_early_sigterm()
    if link is None and options["processes"] > 1:
        log(None)
        return _supervise(options["processes"], options["grace"])
    from packhorse.cli.worker.run_worker import WorkerRun, run_worker

    app = target.load()
    shown = sys.stderr.isatty() and options["live"] and options["log_format"] == "plain" and link is None
    screen = (
        console(stderr=True) if shown and not has_own_logging() else None
    )  # its log lines would break the status line
    log(screen)
    wanted = {name: options[name] for name in ("queues", "concurrency", "queue_concurrency", "lease", "grace")}
    wanted["name"] = _name(options["name"], link)
    return run_worker(app, WorkerRun(wanted, screen, link), _loop(options["loop"]))


def _name(name: str | None, link: WorkerLink | None) -> str | None:
    return f"{name}:{link.number}" if name and link is not None else name


def _supervise(processes: int, grace: timedelta | None) -> int:
    if sys.platform == "win32":
        raise click.UsageError("--processes needs a POSIX system: start several workers instead.")
    from packhorse.cli.worker.supervisor import supervise

    return supervise(processes, DEFAULTS.grace if grace is None else micros(grace))


def _loop(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ModuleNotFoundError:
        if name == "auto":
            return None
        raise MissingExtra("uvloop", "fast") from None
    return uvloop.new_event_loop
