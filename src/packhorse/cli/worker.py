"""``packhorse worker``: run jobs."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import click

from packhorse.cli import exits
from packhorse.cli.frame import Command
from packhorse.cli.lifeline import Lifeline, held
from packhorse.cli.lines import FORMATS, LEVELS, has_own_logging, log_to
from packhorse.cli.screen import Screen, console, with_screen
from packhorse.cli.signals import hear_early
from packhorse.cli.target import Target, with_target
from packhorse.cli.values import Length, Numbers
from packhorse.engine.worker import MIN_LEASE_US, Settings
from packhorse.errors import MissingExtra
from packhorse.model import caps
from packhorse.model.duration import micros

DEFAULTS = Settings()
HELP = f"""Run the jobs of an app, until SIGTERM or Ctrl-C.

APP is module:app, or a module that holds one App; without it, app.py, tasks.py, jobs.py, main.py and worker.py are
looked at, here, in src, and in the package of this folder.

The first signal lets what runs end within the grace; a second one stops it now, to be run again by another worker.

{exits.TABLE}"""


@click.command("worker", cls=Command, help=HELP, short_help="Run the jobs of an app.")
@click.argument("module", metavar="[APP]", required=False)
@with_target
@click.option(
    "-q",
    "--queues",
    type=Numbers(),
    envvar="PACKHORSE_QUEUES",
    help="Queues and their weights: critical:6,default:3,low. Without it, all queues that the app names.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 10_000),
    envvar="PACKHORSE_CONCURRENCY",
    help="How many jobs run at a time.",
    show_default=str(DEFAULTS.concurrency),
)
@click.option(
    "--slots",
    type=Numbers(),
    envvar="PACKHORSE_SLOTS",
    help="At most so many jobs of a queue at a time: email:5,pdf:2.",
)
@click.option(
    "--lease",
    type=Length(MIN_LEASE_US),
    envvar="PACKHORSE_LEASE",
    help="How long the jobs of a worker that died wait before others take them over.",
    show_default=f"{DEFAULTS.lease // caps.SECOND}s",
)
@click.option(
    "--grace",
    type=Length(),
    envvar="PACKHORSE_GRACE",
    help="How long running jobs may take to end after the first signal.",
    show_default=f"{DEFAULTS.grace // caps.SECOND}s",
)
@click.option(
    "--name", envvar="PACKHORSE_WORKER_NAME", help="The name of this worker in logs and lists.", show_default="host:pid"
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    envvar="PACKHORSE_PROCESSES",
    help="Run so many workers, each a process of its own, and start them again when they die.",
    show_default=True,
)
@click.option(
    "--check", is_flag=True, help="Run nothing: say whether a worker of this name or host lives (for probes)."
)
@click.option(
    "--loop",
    type=click.Choice(["auto", "asyncio", "uvloop"]),
    default="auto",
    envvar="PACKHORSE_LOOP",
    help="The event loop; auto is uvloop if it is installed.",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    envvar="PACKHORSE_LOG_LEVEL",
    help="Log lines of this level and above.",
    show_default=True,
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="plain",
    envvar="PACKHORSE_LOG_FORMAT",
    help="Log lines for people or for programs; an app that sets up logging itself is left alone.",
    show_default=True,
)
@click.option(
    "--live/--no-live",
    default=True,
    envvar="PACKHORSE_LIVE",
    help="On a terminal, a last line that says what is going on; not with --processes.",
)
@with_screen
def worker(module: str | None, target: Target, screen: Screen, **options: Any) -> Any:
    """Run jobs, or say whether somebody does."""
    if module is not None:
        target = replace(target, app=module, typed=target.typed | {"app"})
    if options["check"]:
        from packhorse.cli.check import check

        return check(target, options["name"], screen)
    if screen.json:
        raise click.UsageError("--json goes with --check; for log lines as JSON say --log-format json.")
    return click.get_current_context().exit(_run(target, options))


def _run(target: Target, options: dict[str, Any]) -> int:
    log = partial(log_to, options["log_level"], options["log_format"])
    lifeline = held()
    hear_early()
    if lifeline is None and options["processes"] > 1:
        log(None)
        return _supervise(options["processes"], options["grace"])
    from packhorse.cli.serving import Serving, serve

    app = target.load()
    shown = sys.stderr.isatty() and options["live"] and options["log_format"] == "plain" and lifeline is None
    screen = console(stderr=True) if shown and not has_own_logging() else None  # its lines would run into ours
    log(screen)
    wanted = {name: options[name] for name in ("queues", "concurrency", "slots", "lease", "grace")}
    wanted["name"] = _name(options["name"], lifeline)
    return serve(app, Serving(wanted, screen, lifeline), _loop(options["loop"]))


def _name(name: str | None, lifeline: Lifeline | None) -> str | None:
    return f"{name}:{lifeline.number}" if name and lifeline is not None else name


def _supervise(processes: int, grace: timedelta | None) -> int:
    if sys.platform == "win32":
        raise click.UsageError("--processes needs a POSIX system: start several workers instead.")
    from packhorse.cli.supervisor import supervise

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
