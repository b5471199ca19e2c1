"""`packhorse audit`: list what people did to jobs, queues and schedules."""

from typing import Any

import click
import msgspec

from packhorse.audit.entry import AuditEntry
from packhorse.cli.command import Command
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.model.limits import LOOKED_AT

COLUMNS = ("number", "at", "who", "via", "action", "target", "jobs", "outcome", "error")
OPTIONAL_COLUMNS = ("error", "via", "number")  # left out in this order on a narrow terminal


@click.command(cls=Command)
@click.option("-n", "--limit", type=click.IntRange(1, LOOKED_AT), default=50, help="At most this many.  [50]")
@click.option("--before", type=click.IntRange(min=1), help="Only entries before the one with this number.")
@with_target
@with_screen
async def audit(limit: int, before: int | None, target: CliTarget, screen: Screen) -> None:
    """List who did what to jobs, queues and schedules, newest first."""
    async with target.open() as app:
        found = await app.audit.latest(limit, before)
    screen.show(
        [_plain(entry) for entry in found],
        lambda: (
            table(COLUMNS, map(_row, found), right=["number", "jobs"], spare=OPTIONAL_COLUMNS)
            if found
            else "Nothing was done by hand here in the last 90 days."
        ),
    )


def _plain(entry: AuditEntry) -> dict[str, Any]:
    names = (field.name for field in msgspec.structs.fields(entry))
    return {name: getattr(entry, name) for name in ("number", "at", *names)}


def _row(entry: AuditEntry) -> tuple[object, ...]:
    return (
        entry.number,
        entry.at,
        entry.who,
        entry.via,
        entry.action,
        _where(entry),
        entry.count,
        entry.outcome,
        entry.error or None,
    )


def _where(entry: AuditEntry) -> str | None:
    """Return what it was done to, in one cell."""
    if entry.filter is None:
        return entry.target
    return " ".join(f"{name}={value}" for name, value in entry.filter.items()) or "all"
