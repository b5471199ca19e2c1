"""`packhorse jobs`: list, show, replay, cancel, promote and remove jobs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click

from packhorse.cli import formatting
from packhorse.cli.bulk import BulkCommand, job_of
from packhorse.cli.command import CommandGroup
from packhorse.cli.filters import Filters, with_filters
from packhorse.cli.job_details import show_job
from packhorse.cli.screen import Screen, with_screen, with_yes
from packhorse.cli.target import CliTarget, with_target
from packhorse.jobs.bulk_action import CANCEL, DROP, PROMOTE, REPLAY

_IDS = click.argument("ids", nargs=-1, metavar="[ID]...")


@click.group(cls=CommandGroup)
def jobs() -> None:
    """Inspect jobs and repair what went wrong."""


@jobs.command()
@with_target
@with_filters(limit=100)
@with_screen
async def ls(target: CliTarget, filters: Filters, screen: Screen) -> None:
    """List the jobs that match the filters."""
    async with target.open() as app:
        await formatting.print_jobs(
            filters.find(app), screen, formatting.COLUMNS, "No job matches.", (await app.store()).ping
        )


@jobs.command()
@click.argument("job", metavar="ID")
@click.option("--no-arguments", is_flag=True, help="Leave out the arguments and the result.")
@with_target
@with_screen
async def show(job: str, *, no_arguments: bool, target: CliTarget, screen: Screen) -> None:
    """Show all fields of a job, and why it is not running. ID is its id, or the id that you chose."""
    async with target.open() as app:
        await show_job(app, await job_of(app, job), screen, arguments=not no_arguments)


def add_bulk_command(
    group: click.Group, name: str, bulk: BulkCommand, help_text: str, more: Sequence[Callable[..., Any]] = ()
) -> None:
    """Add a command to a group that acts on jobs by ids or filters; ``bulk`` gets the values of ``more`` options."""
    state = bulk.state

    async def command(
        ids: tuple[str, ...],
        target: CliTarget,
        filters: Filters,
        screen: Screen,
        *,
        yes: bool,
        dry_run: bool,
        all: bool = False,
        **others: Any,
    ) -> None:
        filtered = not replace(filters, state=None if state else filters.state).empty
        if (bool(ids), filtered, all).count(True) != 1:
            ways = "their ids, filters, or --all" if state else "their ids, or filters"
            raise click.UsageError(f"Name the jobs to be {bulk.done} in one way: {ways}.")
        async with target.open() as app:
            await bulk.run(app, ids, filters, screen, yes=yes, dry_run=dry_run, **others)

    command.__doc__ = help_text
    dry_run = click.option("--dry-run", is_flag=True, help="Change nothing: print how many jobs, and some ids.")
    options: list[Callable[..., Any]] = [
        with_yes, dry_run, with_screen, *more, with_filters(state=state), with_target, _IDS,
    ]  # fmt: skip
    if state:
        options.append(click.option("--all", is_flag=True, help="All of them."))
    decorated: Callable[..., Any] = command
    for option in options:
        decorated = option(decorated)
    group.command(name)(decorated)


add_bulk_command(
    jobs, "replay", BulkCommand(REPLAY, "replayed"), "Run dead or cancelled jobs again, with all their attempts."
)
add_bulk_command(
    jobs, "cancel", BulkCommand(CANCEL, "cancelled"), "Cancel jobs; the workers of running ones are asked to stop them."
)
add_bulk_command(
    jobs,
    "promote",
    BulkCommand(PROMOTE, "promoted"),
    "Make scheduled jobs, and jobs that wait for a person, ready now.",
)
add_bulk_command(jobs, "rm", BulkCommand(DROP, "removed"), "Remove jobs and all their data, running ones too.")
