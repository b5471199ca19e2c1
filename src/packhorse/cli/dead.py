"""`packhorse dead`: dead letters, one by one or by what killed them."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import click
from click.core import ParameterSource
from rich.console import RenderableType

from packhorse.app import App
from packhorse.cli import words
from packhorse.cli.acts import REMOVE, REPLAY
from packhorse.cli.bulk import Act, job_of, pages
from packhorse.cli.filters import Filters, with_filters
from packhorse.cli.frame import Group, Trouble
from packhorse.cli.jobs import acting
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.show import show_job
from packhorse.cli.target import Target, with_target
from packhorse.jobs.view import Job, Status
from packhorse.model.job import State

LINE = tuple(name for name in words.LINE if name != "state")
DROP = Act("dropped", (State.DEAD,), REMOVE.write)
LETTERS = Act("replayed", (State.DEAD,), REPLAY.write)


@dataclass(slots=True)
class Kind:
    """Dead letters that have something in common: how many, and the newest of them."""

    count: int
    newest: dict[str, Any]
    first: datetime


@click.group(cls=Group)
def dead() -> None:
    """Look at dead letters, run them again, drop them."""


@dead.command()
@click.option("--by", type=click.Choice(["error", "task", "queue", "reason"]), help="Count them by this instead.")
@with_target
@with_filters(limit=100, state="dead")
@with_screen
async def ls(by: str | None, target: Target, filters: Filters, screen: Screen) -> None:
    """List dead letters, newest first in each queue, or count them by what they have in common."""
    async with target.open() as app:
        if by is None:
            await words.listed(filters.find(app), screen, LINE, "No dead letter fits.", (await app.store()).ping)
            return
        if click.get_current_context().get_parameter_source("limit") is ParameterSource.DEFAULT:
            filters = replace(filters, limit=None)
        kinds = await _kinds(app, filters, by)
        screen.show([_plain(by, key, kind) for key, kind in kinds], lambda: _summary(by, kinds))


async def _kinds(app: App, filters: Filters, by: str) -> list[tuple[tuple[str, ...], Kind]]:
    """The largest kind first; of each only its number and its newest letter are kept."""
    kinds: dict[tuple[str, ...], Kind] = {}
    async for page in pages(app, filters, [State.DEAD]):
        for job in page:
            told = words.brief(job)
            kind = kinds.setdefault(_key(job, by), Kind(0, told, job.since))
            kind.count += 1
            kind.newest = max(kind.newest, told, key=lambda letter: letter["since"])
            kind.first = min(kind.first, job.since)
    return sorted(kinds.items(), key=lambda item: (-item[1].count, item[0]))


def _key(job: Job, by: str) -> tuple[str, ...]:
    if by == "error":
        return job.task, job.failures[-1].type if job.failures else "-"
    return (str(getattr(job, by)),)


def _names(by: str) -> tuple[str, ...]:
    return ("task", "error") if by == "error" else (by,)


def _plain(by: str, key: tuple[str, ...], kind: Kind) -> dict[str, Any]:
    named = dict(zip(_names(by), key, strict=True))
    return {**named, "count": kind.count, "first": kind.first, "last": kind.newest["since"], "newest": kind.newest}


def _summary(by: str, kinds: list[tuple[tuple[str, ...], Kind]]) -> RenderableType:
    if not kinds:
        return "No dead letter fits."
    rows = [
        (*key, kind.count, kind.first, *(kind.newest[name] for name in ("since", "id", "error"))) for key, kind in kinds
    ]
    return table(
        (*_names(by), "count", "first", "last", "newest", "its error"), rows, right=["count"], spare=["first", "last"]
    )


@dead.command()
@click.argument("job", metavar="ID")
@click.option("--no-arguments", is_flag=True, help="Leave out what it was enqueued with.")
@with_target
@with_screen
async def show(job: str, *, no_arguments: bool, target: Target, screen: Screen) -> None:
    """Show all that is known of a dead letter."""
    async with target.open() as app:
        found = await job_of(app, job)
        if found.status is not Status.DEAD:
            raise Trouble(f"The job {job} is {found.status}, not dead: `packhorse jobs show {job}`.")
        await show_job(app, found, screen, arguments=not no_arguments)


acting(dead, "replay", LETTERS, "Make dead letters ready again: those with these ids, or all that fit.", state="dead")
acting(dead, "drop", DROP, "Remove dead letters for good: those with these ids, or all that fit.", state="dead")
