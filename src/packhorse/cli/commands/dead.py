"""`packhorse dead`: list, group, show, replay and drop dead jobs."""

from collections.abc import AsyncIterator, Sequence
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
from packhorse.cli.commands.dead_edit import replay_edited
from packhorse.cli.commands.dead_groups import groups
from packhorse.cli.commands.jobs import add_bulk_command
from packhorse.cli.filters import Filters, with_filters
from packhorse.cli.job_details import show_letter
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.jobs.bulk_action import DROP, REPLAY
from packhorse.jobs.job import Job, JobState
from packhorse.model.clock import moment

COLUMNS = tuple(name for name in formatting.COLUMNS if name != "state")


@dataclass(slots=True)
class DeadCount:
    """Dead jobs with the same task, queue or reason: their number and the newest."""

    count: int
    newest: dict[str, Any]
    first: datetime


@click.group(cls=CommandGroup)
def dead() -> None:
    """Inspect dead jobs, run them again or remove them."""


dead.add_command(groups)


@dead.command()
@click.option(
    "--by",
    type=click.Choice(["task", "queue", "reason"]),
    help="Count the dead jobs by this instead of listing them.",
)
@with_target
@with_filters(limit=100, state="dead")
@with_screen
async def ls(by: str | None, target: CliTarget, filters: Filters, screen: Screen) -> None:
    """List dead jobs, newest first, or count them by what they have in common."""
    async with target.open() as app:
        if by is None:
            found = _looked_at(app, filters.find(app))
            await formatting.print_jobs(found, screen, COLUMNS, "No dead job matches.", (await app.store()).ping)
            return
        if click.get_current_context().get_parameter_source("limit") is ParameterSource.DEFAULT:
            filters = replace(filters, limit=None)
        counts = await _counts(app, filters, by)
        screen.show([_plain(by, key, some) for key, some in counts], lambda: _summary(by, counts))


async def _looked_at(app: App, jobs: AsyncIterator[Job]) -> AsyncIterator[Job]:
    """Note that the dead jobs of the queues of these jobs were looked at."""
    queues = set[str]()
    async for job in jobs:
        queues.add(job.queue)
        yield job
    await app.dead.seen.now(queues)


async def _counts(app: App, filters: Filters, by: str) -> list[tuple[str, DeadCount]]:
    """Count dead jobs, largest number first; keep only the number and the newest job of each."""
    counts: dict[str, DeadCount] = {}
    async for job in filters.find(app):
        data = formatting.brief(job)
        some = counts.setdefault(str(getattr(job, by)), DeadCount(0, data, moment(job.stored.since)))
        some.count += 1
        some.newest = max(some.newest, data, key=lambda one: one["ended_at"])
        some.first = min(some.first, moment(job.stored.since))
    return sorted(counts.items(), key=lambda item: (-item[1].count, item[0]))


def _plain(by: str, key: str, some: DeadCount) -> dict[str, Any]:
    last = some.newest["ended_at"]
    return {by: key, "count": some.count, "first": some.first, "last": last, "newest": some.newest}


def _summary(by: str, counts: list[tuple[str, DeadCount]]) -> RenderableType:
    if not counts:
        return "No dead job matches."
    rows = [
        (key, some.count, some.first, *(some.newest[name] for name in ("ended_at", "id", "error")))
        for key, some in counts
    ]
    return table((by, "count", "first", "last", "newest", "its error"), rows, right=["count"], spare=["first", "last"])


@dead.command()
@click.argument("job", metavar="ID")
@click.option("--no-arguments", is_flag=True, help="Leave out the arguments.")
@click.option("--full-traceback", is_flag=True, help="Print the frames of installed packages too.")
@with_target
@with_screen
async def show(job: str, *, no_arguments: bool, full_traceback: bool, target: CliTarget, screen: Screen) -> None:
    """Show all fields of a dead job, its attempts and its traceback."""
    async with target.open() as app:
        found = await job_of(app, job)
        if found.state is not JobState.DEAD:
            raise CliError(f"The job {job} is {found.state}, not dead: use `packhorse jobs show {job}`.")
        letter = await app.dead.get(found.id)
        show_letter(letter, found, screen, arguments=not no_arguments, full=full_traceback)


class DeadReplay(BulkCommand):
    """Replay of dead jobs: as they are, or one of them with other arguments."""

    async def run(
        self,
        app: App,
        ids: Sequence[str],
        filters: Filters,
        screen: Screen,
        *,
        yes: bool,
        dry_run: bool = False,
        edit: bool = False,
        arguments: str | None = None,
    ) -> None:
        """Replay jobs; with ``edit`` or ``arguments`` the only one."""
        if not edit and arguments is None:
            left = ids if dry_run else await app.dead.without_replaced(ids)
            if ids and not left:
                self._report(screen, 0)
                return
            await super().run(app, left, filters, screen, yes=yes, dry_run=dry_run)
            return
        if len(ids) != 1 or (edit and arguments is not None):
            raise click.UsageError("Give the id of one job with either --edit or --arguments.")
        await replay_edited(app, ids[0], arguments, screen, yes=yes, dry_run=dry_run)


add_bulk_command(
    dead,
    "replay",
    DeadReplay(REPLAY, "replayed", "dead"),
    "Run dead jobs again, chosen by ids, filters or --all; one of them also with other arguments.",
    [
        click.option("--edit", is_flag=True, help="Open the arguments of one job in an editor, and run it with them."),
        click.option("--arguments", metavar="JSON", help="Run one job with these arguments."),
    ],
)
add_bulk_command(
    dead, "drop", BulkCommand(DROP, "dropped", "dead"), "Remove dead jobs for good, chosen by ids, filters or --all."
)
