"""`packhorse events`: print what happens to jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from packhorse.cli.command import Command, CommandGroup
from packhorse.cli.screen import Screen, plain, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Moment
from packhorse.events.event import Gap, JobEvent, JobEventName
from packhorse.events.filter import ALIASES, FAILED

NAMES = [*JobEventName, *ALIASES, FAILED]


@click.group(cls=CommandGroup)
def events() -> None:
    """Follow what happens to jobs."""


@events.command(cls=Command)
@click.argument("names", nargs=-1, type=click.Choice([str(name) for name in NAMES]), metavar="[NAME]...")
@click.option("-q", "--queue", help="Only events of jobs in this queue.")
@click.option("-t", "--task", help="Only events of jobs of this task.")
@click.option(
    "--after", metavar="POSITION", help='Start after this position, or with the "earliest" event that is kept.'
)
@click.option("--since", type=Moment(back=True), help="Start with the events since then: 15m, 2h, 2026-01-31T12:00Z.")
@click.option("--no-follow", is_flag=True, help="Print the events so far, then end.")
@with_target
@with_screen
async def tail(
    names: Sequence[str],
    queue: str | None,
    task: str | None,
    after: str | None,
    since: datetime | None,
    *,
    no_follow: bool,
    target: CliTarget,
    screen: Screen,
) -> None:
    """Print events as they happen, until Ctrl-C, then the position to resume from.

    NAME is one of enqueued, claimed, done, again, waiting, dead, cancelled, lost, replayed, promoted, or failed (dead, or
    again with an error). With --json each line is a JSON document.
    """
    if after is not None and since is not None:
        raise click.UsageError("Give --after or --since, not both.")
    async with target.open() as app:
        stream = app.events(*names, queue=queue, task=task, after=after or since, follow=not no_follow)
        try:
            async with stream:
                async for event in stream:
                    _print(screen, event)
        finally:
            if not no_follow and stream.position is not None:
                click.echo(f"To go on from here: --after {stream.position}", err=True)


def _print(screen: Screen, event: JobEvent | Gap) -> None:
    if isinstance(event, Gap):
        screen.line({"gap": event.missed, "damaged": event.damaged, "position": event.position}, _gap_line(event))
        return
    data: dict[str, Any] = {"event": event.name.value, **msgspec.structs.asdict(event)}
    for field in ("name", "result"):
        del data[field]
    data["duration"] = None if event.duration is None else event.duration.total_seconds()
    words = [f"{plain(event.at)}  {event.name:<9}  {event.job_id}  {plain(event.task)}  {plain(event.queue)}"]
    words += [f"attempt {event.attempt}"] if event.attempt else []
    words += [event.worker] if event.worker else []
    words += [event.reason] if event.reason else []
    words += [f"{event.error_type}: {' '.join((event.error_message or '').split())}"] if event.error_type else []
    screen.line(data, "  ".join(words))


def _gap_line(gap: Gap) -> str:
    why = "it is damaged" if gap.damaged else "removed from the log before they were read"
    return f"{gap.missed} {'entry' if gap.missed == 1 else 'entries'} skipped: {why}"
