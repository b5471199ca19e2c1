"""The filter options of all commands that look for jobs."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import Any

import click

from packhorse.app import App
from packhorse.cli.values import Moment, Pair
from packhorse.jobs.search import Search
from packhorse.jobs.view import Job
from packhorse.model.job import State
from packhorse.model.reason import UNUSED, DeadReason, WaitReason

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Search):
    """Which jobs a command is about, and at most how many of them (all, if None)."""

    limit: int | None = None

    @property
    def empty(self) -> bool:
        """Whether it fits every job."""
        return all(value is None for name, value in asdict(self).items() if name != "limit")

    async def find(self, app: App) -> AsyncIterator[Job]:
        """The jobs that fit, page after page, up to the limit."""
        wanted, left, cursor = asdict(self), self.limit, None
        del wanted["limit"]
        while left is None or left > 0:
            size = PAGE if left is None or self.sifted else min(left, PAGE)
            page = await app.find(**wanted, limit=size, cursor=cursor)
            for job in page.items[:left]:
                yield job
            left = None if left is None else left - len(page.items)
            cursor = page.cursor
            if cursor is None:
                return


_NAMES = tuple(field.name for field in fields(Filters))


def with_filters(*, limit: int | None = None, state: str | None = None) -> Callable[..., Any]:
    """Give a command the filter options, as ``filters``; ``state`` fixes the state and takes away its option."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*args: Any, **options: Any) -> Any:
            said = {name: options.pop(name, None) for name in _NAMES}
            said["state"] = state or said["state"]
            return function(*args, filters=Filters(**said), **options)

        for option in reversed(_options(limit, state)):
            command = option(command)
        return command

    return decorate


def _options(limit: int | None, state: str | None) -> list[Callable[..., Any]]:
    states = click.option(
        "-s", "--state", type=click.Choice([each.value for each in State]), help="Only in this state."
    )
    known = (*WaitReason, *DeadReason) if state is None else tuple(DeadReason)
    reasons = click.Choice([each.value for each in known if each not in UNUSED])
    why = "Only those that wait or died for this reason." if state is None else "Only those that died for this reason."
    many = "At most so many." if limit is not None else "At most so many; all without it."
    return [
        click.option("-q", "--queue", help="Only of this queue."),
        click.option("-t", "--task", help="Only of this task."),
        *([] if state else [states]),
        click.option("--reason", type=reasons, help=why),
        click.option("--key", help="Only of the lane with this key."),
        click.option("--tenant", help="Only of this tenant."),
        click.option("--header", type=Pair(), help="Only with this header, as name=value."),
        click.option("--error", help="Only those with this text in the type or message of a failure."),
        click.option("--since", type=Moment(back=True), help="Only those enqueued since: 15m, 2h, 2026-01-31T12:00Z."),
        click.option("-n", "--limit", type=click.IntRange(min=1), default=limit, show_default=True, help=many),
    ]
