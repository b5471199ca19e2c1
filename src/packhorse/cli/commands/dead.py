"""`packhorse dead`: list, group, show, replay and drop dead jobs."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import click
from click.core import ParameterSource
from rich.console import RenderableType

from packhorse.app import App
from packhorse.cli import formatting
from packhorse.cli.bulk import BulkCommand, job_of
from packhorse.cli.command import CliError, CommandGroup
from packhorse.cli.commands.jobs import add_bulk_command
from packhorse.cli.filters import Filters, with_filters
from packhorse.cli.job_details import show_job
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.jobs.bulk_action import DROP, REPLAY
from packhorse.jobs.job import Job, JobState
from packhorse.model.clock import moment

COLUMNS = tuple(name for name in formatting.COLUMNS if name != "state")


@dataclass(slots=True)
class DeadGroup:
    """Dead jobs with the same error, task, queue or reason: their number and the newest."""

    count: int
    newest: dict[str, Any]
    first: datetime


@click.group(cls=CommandGroup)
def dead() -> None:
    """Inspect dead jobs, run them again or remove them."""


@dead.command()
@click.option(
    "--by",
    type=click.Choice(["error", "task", "queue", "reason"]),
    help="Count the dead jobs by this instead of listing them.",
)
@with_target
@with_filters(limit=100, state="dead")
@with_screen
async def ls(by: str | None, target: CliTarget, filters: Filters, screen: Screen) -> None:
    """List dead jobs, newest first in each queue, or count them by what they have in common."""
    async with target.open() as app:
        if by is None:
            await formatting.print_jobs(
                filters.find(app), screen, COLUMNS, "No dead job matches.", (await app.store()).ping
            )
            return
        if click.get_current_context().get_parameter_source("limit") is ParameterSource.DEFAULT:
            filters = replace(filters, limit=None)
        groups = await _groups(app, filters, by)
        screen.show([_plain(by, key, group) for key, group in groups], lambda: _summary(by, groups))


async def _groups(app: App, filters: Filters, by: str) -> list[tuple[tuple[str, ...], DeadGroup]]:
    """Group dead jobs, largest group first; keep only the number and the newest job of each."""
    groups: dict[tuple[str, ...], DeadGroup] = {}
    async for job in filters.find(app):
        data = formatting.brief(job)
        group = groups.setdefault(_key(job, by), DeadGroup(0, data, moment(job.stored.since)))
        group.count += 1
        group.newest = max(group.newest, data, key=lambda one: one["ended_at"])
        group.first = min(group.first, moment(job.stored.since))
    return sorted(groups.items(), key=lambda item: (-item[1].count, item[0]))


def _key(job: Job, by: str) -> tuple[str, ...]:
    if by == "error":
        return job.task, job.failures[-1].type if job.failures else "-"
    return (str(getattr(job, by)),)


def _names(by: str) -> tuple[str, ...]:
    return ("task", "error") if by == "error" else (by,)


def _plain(by: str, key: tuple[str, ...], group: DeadGroup) -> dict[str, Any]:
    named = dict(zip(_names(by), key, strict=True))
    return {
        **named,
        "count": group.count,
        "first": group.first,
        "last": group.newest["ended_at"],
        "newest": group.newest,
    }


def _summary(by: str, groups: list[tuple[tuple[str, ...], DeadGroup]]) -> RenderableType:
    if not groups:
        return "No dead job matches."
    rows = [
        (*key, group.count, group.first, *(group.newest[name] for name in ("ended_at", "id", "error")))
        for key, group in groups
    ]
    return table(
        (*_names(by), "count", "first", "last", "newest", "its error"), rows, right=["count"], spare=["first", "last"]
    )


@dead.command()
@click.argument("job", metavar="ID")
@click.option("--no-arguments", is_flag=True, help="Leave out the arguments.")
@with_target
@with_screen
async def show(job: str, *, no_arguments: bool, target: CliTarget, screen: Screen) -> None:
    """Show all fields of a dead job."""
    async with target.open() as app:
        found = await job_of(app, job)
        if found.state is not JobState.DEAD:
            raise CliError(f"The job {job} is {found.state}, not dead: use `packhorse jobs show {job}`.")
        await show_job(app, found, screen, arguments=not no_arguments)


add_bulk_command(
    dead, "replay", BulkCommand(REPLAY, "replayed", "dead"), "Run dead jobs again, chosen by ids, filters or --all."
)
add_bulk_command(
    dead, "drop", BulkCommand(DROP, "dropped", "dead"), "Remove dead jobs for good, chosen by ids, filters or --all."
)
