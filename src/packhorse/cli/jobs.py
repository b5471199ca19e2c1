"""`packhorse jobs`: look at jobs, follow them, run them again, call them off, remove them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from packhorse.cli import words
from packhorse.cli.acts import CANCEL, REMOVE, REPLAY
from packhorse.cli.bulk import Act, job_of
from packhorse.cli.filters import Filters, with_filters
from packhorse.cli.frame import Group
from packhorse.cli.screen import Screen, with_screen, with_yes
from packhorse.cli.show import show_job
from packhorse.cli.tail import tail
from packhorse.cli.target import Target, with_target

_IDS = click.argument("ids", nargs=-1, metavar="[ID]...")


@click.group(cls=Group)
def jobs() -> None:
    """Look at jobs and mend them."""


@jobs.command()
@with_target
@with_filters(limit=100)
@with_screen
async def ls(target: Target, filters: Filters, screen: Screen) -> None:
    """List jobs that fit the filters."""
    async with target.open() as app:
        await words.listed(filters.find(app), screen, words.LINE, "No job fits.", (await app.store()).ping)


@jobs.command()
@click.argument("job", metavar="ID")
@click.option("--no-arguments", is_flag=True, help="Leave out what it was enqueued with and its result.")
@with_target
@with_screen
async def show(job: str, *, no_arguments: bool, target: Target, screen: Screen) -> None:
    """Show all that is known of a job, and why it is not running. ID is its id, also one of your own choice."""
    async with target.open() as app:
        await show_job(app, await job_of(app, job), screen, arguments=not no_arguments)


jobs.add_command(tail)


def acting(group: click.Group, name: str, act: Act, words: str, *, state: str | None = None) -> None:
    """Give a group a command that does something to jobs, by their ids or by filters; ``state`` fixes the state."""

    async def command(
        ids: tuple[str, ...], target: Target, filters: Filters, screen: Screen, *, yes: bool, all: bool = False
    ) -> None:
        said = not replace(filters, state=None if state else filters.state).empty
        if (bool(ids), said, all).count(True) != 1:
            ways = "their ids, filters, or --all" if state else "their ids, or filters"
            raise click.UsageError(f"Say which jobs are to be {act.done}, in one way: {ways}.")
        async with target.open() as app:
            await act.run(app, ids, filters, screen, yes=yes)

    command.__doc__ = words
    options: list[Callable[..., Any]] = [with_yes, with_screen, with_filters(state=state), with_target, _IDS]
    if state:
        options.append(click.option("--all", is_flag=True, help="All of them."))
    decorated: Callable[..., Any] = command
    for option in options:
        decorated = option(decorated)
    group.command(name)(decorated)


acting(jobs, "replay", REPLAY, "Make dead or cancelled jobs ready again, with their attempts at zero.")
acting(jobs, "cancel", CANCEL, "Call jobs off; the worker of a running one is asked to stop it.")
acting(jobs, "rm", REMOVE, "Remove jobs with all that is known of them, running ones too.")
