"""`packhorse schedules`: list, show, run, pause and remove schedules."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from cronsim import CronSimError

from packhorse.app import App
from packhorse.cli.command import CommandGroup
from packhorse.cli.screen import Screen, plain, table, with_screen, with_yes
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Moment
from packhorse.errors import InvalidSchedule
from packhorse.model.clock import moment
from packhorse.model.cron import EPOCH, Cron, zone_of
from packhorse.model.limits import LOOKED_AT, SECOND
from packhorse.schedules.schedule import Schedule

HALF_A_DAY = timedelta(hours=12)
COLUMNS = ("schedule", "rule", "zone", "task", "state", "last", "next", "in its zone")


@click.group(cls=CommandGroup)
def schedules() -> None:
    """Inspect schedules, run or pause them."""


@schedules.command()
@click.argument("prefix", default="")
@with_target
@with_screen
async def ls(prefix: str, target: CliTarget, screen: Screen) -> None:
    """List schedules, or those whose names begin with PREFIX, with their last and next ticks."""
    async with target.open() as app:
        now, cursor = await _now(app), None
        found: list[Schedule] = []
        while True:
            page = await app.schedules.find(prefix, limit=LOOKED_AT, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                break
        screen.show(
            [_plain(schedule, now) for schedule in found],
            lambda: (
                table(COLUMNS, (_row(schedule, now) for schedule in found))
                if found
                else "No schedule is stored here. Those declared in code are stored when a worker starts, or by sync."
            ),
        )


@schedules.command(name="next")
@click.argument("name")
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=10, help="The number of ticks.  [10]")
@with_target
@with_screen
async def next_(name: str, count: int, target: CliTarget, screen: Screen) -> None:
    """Show the next ticks of a schedule, in UTC and in its own zone."""
    async with target.open() as app:
        schedule = await app.schedules.get(name)
        ticks = await app.schedules.next(name, count)
    rows = [{"utc": tick, "local": _local(schedule, tick), "remark": remark(schedule, tick)} for tick in ticks]
    screen.show(
        rows,
        lambda: (
            table(("UTC", schedule.zone, ""), ((row["utc"], row["local"], row["remark"]) for row in rows))
            if rows
            else f"{name} has no next tick: it {_why(schedule)}."
        ),
    )


@schedules.command()
@click.argument("name")
@with_target
@with_screen
async def show(name: str, target: CliTarget, screen: Screen) -> None:
    """Show all fields of a schedule."""
    async with target.open() as app:
        schedule = await app.schedules.get(name)
        data = {**_plain(schedule, await _now(app)), **_policies(schedule), "payload": schedule.what.payload}
    screen.show(data, lambda: "\n".join(f"{word:14} {plain(value)}" for word, value in data.items()))


@schedules.command()
@click.argument("name")
@click.option("--at", type=Moment(), help="The logical time of the run.  [now]")
@with_target
@with_screen
async def run(name: str, at: datetime | None, target: CliTarget, screen: Screen) -> None:
    """Run a schedule once now, besides its rule."""
    async with target.open() as app:
        job = await app.schedules.run(name, at=at)
    screen.show({"id": job.id, "schedule": name}, lambda: f"{job.id} runs {name}.")


@schedules.command()
@click.argument("name")
@click.argument("begin", type=Moment(back=True))
@click.argument("end", type=Moment(back=True))
@with_target
@with_screen
async def backfill(name: str, begin: datetime, end: datetime, target: CliTarget, screen: Screen) -> None:
    """Make the missing runs between two moments, one after the other."""
    async with target.open() as app:
        made = await app.schedules.backfill(name, begin, end)
    screen.show({"schedule": name, "made": made}, lambda: f"{made} runs of {name} were made.")


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@with_target
@with_screen
async def pause(names: Sequence[str], target: CliTarget, screen: Screen) -> None:
    """Pause schedules; ticks missed while paused are not made up for."""
    async with target.open() as app:
        await _require(app, names)
        for name in names:
            await app.schedules.pause(name)
    screen.show({"paused": names}, lambda: f"Paused: {', '.join(names)}.")


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@with_target
@with_screen
async def resume(names: Sequence[str], target: CliTarget, screen: Screen) -> None:
    """Resume schedules, disabled ones too."""
    async with target.open() as app:
        await _require(app, names)
        for name in names:
            await app.schedules.resume(name)
    screen.show({"resumed": names}, lambda: f"Resumed: {', '.join(names)}.")


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@with_target
@with_yes
@with_screen
async def rm(names: Sequence[str], *, yes: bool, target: CliTarget, screen: Screen) -> None:
    """Remove schedules; runs already made go on. One declared in code comes back with the next worker."""
    async with target.open() as app:
        await _require(app, names)
        count = "1 schedule" if len(names) == 1 else f"{len(names)} schedules"
        screen.confirm(f"{count} will be removed", yes=yes)
        for name in names:
            await app.schedules.remove(name)
    screen.show({"removed": names}, lambda: f"Removed: {', '.join(names)}.")


@schedules.command()
@with_target
@with_screen
async def sync(target: CliTarget, screen: Screen) -> None:
    """Store the schedules declared in code; disable those that are no longer declared."""
    app = target.load()
    async with app:
        changed = await app.schedules.sync()
    names = ", ".join(changed) or "nothing, all schedules are as declared"
    screen.show({"changed": changed}, lambda: f"Changed: {names}.")


def remark(schedule: Schedule, tick: datetime) -> str:
    """Describe a clock change of the zone around a tick; empty if the clock does not change."""
    before, after = ((tick + part).astimezone(zone_of(schedule.zone)).utcoffset() for part in (-HALF_A_DAY, HALF_A_DAY))
    if before is None or after is None or before == after:
        return ""
    return f"clocks go {'forward' if after > before else 'back'} by {abs(after - before)} around it"


def _plain(schedule: Schedule, now: datetime) -> dict[str, Any]:
    fault = _fault(schedule)
    return {
        "schedule": schedule.name,
        "rule": schedule.rule.text,
        "means": schedule.rule.describe() if fault is None else None,
        "zone": schedule.zone,
        "task": schedule.what.task,
        "queue": schedule.what.queue or "default",
        "state": _state(schedule),
        "catch_up": schedule.catch_up,
        "overlap": schedule.overlap,
        "release": schedule.release,
        "declared_in": schedule.source,
        "app": schedule.app,
        "last": schedule.last,
        "next": _next(schedule, now),
        "fault": fault,
    }


def _fault(schedule: Schedule) -> str | None:
    """Return why this machine cannot compute the ticks, such as an unknown zone; None if it can."""
    try:
        schedule.rule.after(EPOCH)
    except (InvalidSchedule, CronSimError) as error:
        return str(error)
    return None


def _policies(schedule: Schedule) -> dict[str, Any]:
    rule, within = schedule.rule, schedule.expect_within
    return {
        "gap": rule.gap if isinstance(rule, Cron) else None,
        "fold": rule.fold if isinstance(rule, Cron) else None,
        "jitter": schedule.jitter / SECOND,
        "start": schedule.start,
        "end": schedule.end,
        "expect_within": None if within is None else within / SECOND,
    }


async def _require(app: App, names: Sequence[str]) -> None:
    """Raise if one of the schedules does not exist, before any is changed."""
    for name in names:
        await app.schedules.get(name)


def _row(schedule: Schedule, now: datetime) -> tuple[object, ...]:
    upcoming = _next(schedule, now)
    local = None if upcoming is None else f"{_local(schedule, upcoming)} {remark(schedule, upcoming)}".rstrip()
    about = (schedule.name, schedule.rule.text, schedule.zone, schedule.what.task, _state(schedule))
    return (*about, schedule.last, upcoming, local)


def _next(schedule: Schedule, now: datetime) -> datetime | None:
    return None if _state(schedule) != "active" else schedule.after(now)


def _state(schedule: Schedule) -> str:
    if schedule.disabled:
        return "disabled"
    if _fault(schedule) is not None:
        return "cannot fire here"
    return "paused" if schedule.paused else "active"


def _why(schedule: Schedule) -> str:
    """Return why it has no next tick."""
    state = _state(schedule)
    return f"is {state}" if state != "active" else f"ended with {schedule.end}" if schedule.end else "never fires again"


def _local(schedule: Schedule, tick: datetime) -> str:
    return tick.astimezone(zone_of(schedule.zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")


async def _now(app: App) -> datetime:
    return moment(await (await app.store()).ping())
