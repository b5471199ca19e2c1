"""`packhorse dead groups`: what dead jobs have in common."""

import click
import msgspec

from packhorse.cli.command import Command
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.dead_letters.groups import ErrorGroup

ESTIMATED = "Nothing counts the deaths here: these groups are made of the newest 1,000 dead jobs."
COLUMNS = ("group", "task", "error", "deaths", "first", "last", "release", "newest", "message")
SPARE = ("release", "first", "message", "last")  # left out in this order on a narrow terminal


@click.command(cls=Command)
@click.option("-t", "--task", help="Only groups of this task.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many.")
@with_target
@with_screen
async def groups(task: str | None, limit: int, target: CliTarget, screen: Screen) -> None:
    """List the errors that killed jobs, the newest first; `--group` of other commands takes a fingerprint."""
    async with target.open() as app:
        found = [group for group in await app.dead.groups() if task in (None, group.task)][:limit]
    screen.show(
        [msgspec.structs.asdict(group) for group in found],
        lambda: table(COLUMNS, map(_row, found), right=["deaths"], spare=SPARE) if found else "No dead job matches.",
    )
    if not all(group.exact for group in found):
        screen.say(ESTIMATED)


def _row(group: ErrorGroup) -> tuple[object, ...]:
    return (
        group.fingerprint,
        group.task,
        group.error_type,
        group.deaths,
        group.first_died_at,
        group.last_died_at,
        group.first_release or None,
        group.newest[0],
        group.message,
    )
