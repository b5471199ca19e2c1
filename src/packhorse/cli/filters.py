"""Filter options of all commands that search for jobs."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import Any

import click

from packhorse.app import App
from packhorse.cli.values import Moment, Pair
from packhorse.jobs.job import Job
from packhorse.jobs.search import PAGE_SIZE, Search
from packhorse.model.job import State
from packhorse.model.reason import UNUSED, DeadReason, WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Search):
    """Which jobs a command selects, and at most how many (all, if None)."""

    limit: int | None = None

    @property
    def empty(self) -> bool:
        """Whether it selects every job."""
        return all(value is None for name, value in asdict(self).items() if name != "limit")

    @property
    def search(self) -> Search:
        """The filters without the limit."""
        return Search(**{name: getattr(self, name) for name in _SEARCHED})

    async def find(self, app: App) -> AsyncIterator[Job]:
        """Find the jobs page by page, up to the limit."""
        wanted, left, cursor = self.search, self.limit, None
        while left is None or left > 0:
            size = PAGE_SIZE if left is None or self.sifted else min(left, PAGE_SIZE)
            page = await wanted.page(app.client, size, cursor)
            for job in page.items[:left]:
                yield job
            left = None if left is None else left - len(page.items)
            cursor = page.cursor
            if cursor is None:
                return


_NAMES = tuple(field.name for field in fields(Filters))
_SEARCHED = tuple(field.name for field in fields(Search))


def with_filters(*, limit: int | None = None, state: str | None = None) -> Callable[..., Any]:
    """Add the filter options to a command, as ``filters``; a given ``state`` is fixed and has no option."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*args: Any, **options: Any) -> Any:
            given = {name: options.pop(name, None) for name in _NAMES}
            given["state"] = state or given["state"]
            return function(*args, filters=Filters(**given), **options)

        for option in reversed(_options(limit, state)):
            command = option(command)
        return command

    return decorate


def _options(limit: int | None, state: str | None) -> list[Callable[..., Any]]:
    states = click.option(
        "-s", "--state", type=click.Choice([each.value for each in State]), help="Only jobs in this state."
    )
    known = (*WaitReason, *DeadReason) if state is None else tuple(DeadReason)
    reasons = click.Choice([each.value for each in known if each not in UNUSED])
    why = "Only jobs that wait or died for this reason." if state is None else "Only jobs that died for this reason."
    many = "At most this many." if limit is not None else "At most this many; without it all."
    return [
        click.option("-q", "--queue", help="Only jobs of this queue."),
        click.option("-t", "--task", help="Only jobs of this task."),
        *([] if state else [states]),
        click.option("--reason", type=reasons, help=why),
        click.option("--key", help="Only jobs of the lane with this key."),
        click.option("--tenant", help="Only jobs of this tenant."),
        click.option("--header", type=Pair(), help="Only jobs with this header, as name=value."),
        click.option("--error", help="Only jobs with this text in the type or message of a failure."),
        *([click.option("--group", help="Only jobs of the error group with this fingerprint.")] if state else []),
        click.option(
            "--enqueued-after",
            type=Moment(back=True),
            help="Only jobs enqueued then or later: 15m (ago), 2h, 2026-01-31T12:00Z.",
        ),
        click.option("-n", "--limit", type=click.IntRange(min=1), default=limit, show_default=True, help=many),
    ]
