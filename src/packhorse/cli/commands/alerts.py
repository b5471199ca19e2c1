"""`packhorse alerts`: list rules and alerts, silence them, test targets, read the log of deliveries."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from packhorse.cli.command import CommandGroup
from packhorse.cli.screen import Screen, table, with_screen
from packhorse.cli.target import CliTarget, with_target
from packhorse.model.limits import LOOKED_AT

RULES = ("rule", "state", "severity", "since", "to", "message")
SILENCES = ("id", "until", "matches", "who", "why")
DELIVERIES = ("id", "enqueued_at", "rule", "phase", "target", "state", "attempts", "status", "error")


@click.group(cls=CommandGroup)
def alerts() -> None:
    """See which alerts fire, silence them, and test where they go."""


@alerts.command()
@with_target
@with_screen
async def ls(target: CliTarget, screen: Screen) -> None:
    """List the rules of alerts, and the alerts that hold."""
    async with target.open() as app:
        found = await app.alerts.find()
    rows = [(one.rule, one.state, one.severity, one.since, ", ".join(one.to), one.message or None) for one in found]
    nothing = "No rules: declare them with app.alerts(to=[…]); they are stored when a worker of the app starts."
    screen.show(
        [_plain(one) for one in found], lambda: table(RULES, rows, spare=["to", "severity"]) if rows else nothing
    )


@alerts.command()
@with_target
@with_screen
async def silences(target: CliTarget, screen: Screen) -> None:
    """List the silences in force."""
    async with target.open() as app:
        found = await app.alerts.silences()
    rows = [(one.id, one.until, _matcher(one), one.who, one.why or None) for one in found]
    screen.show(
        [_plain(one) for one in found],
        lambda: table(SILENCES, rows, spare=["who", "why"]) if rows else "Nothing is silenced.",
    )


@alerts.command()
@click.option("--rule", help="Only alerts of the rule with this name.")
@click.option("--queue", help="Only alerts about this queue.")
@click.option("--task", help="Only alerts about this task.")
@click.option("--fingerprint", help="Only alerts about failures with this fingerprint.")
@click.option("--for", "for_", default="1h", help="For how long, for example 30m or 2h.  [1h]")
@click.option("--why", default="", help="Why, for others to read.")
@click.option("--end", metavar="ID", help="End the silence with this id instead.")
@with_target
@with_screen
async def silence(*, for_: str, why: str, end: str | None, target: CliTarget, screen: Screen, **matcher: Any) -> None:
    """Send no alerts that match, for a time; what still holds afterwards is sent then."""
    async with target.open() as app:
        if end is not None:
            ended = await app.alerts.end_silence(end)
            screen.show({"ended": ended}, lambda: "Ended." if ended else f"There is no silence {end}.")
            return
        made = await app.alerts.silence(**matcher, for_=for_, why=why)
    screen.show(
        _plain(made), lambda: f"Silenced until {made.until.isoformat()}: {_matcher(made)}. Its id is {made.id}."
    )


@alerts.command()
@click.argument("names", metavar="RULE…", nargs=-1, required=True)
@with_target
@with_screen
async def rm(names: Sequence[str], target: CliTarget, screen: Screen) -> None:
    """Remove rules with their alerts. One declared in code comes back with the next worker."""
    async with target.open() as app:
        removed = [name for name in names if await app.alerts.remove(name)]
    screen.show(
        {"removed": removed}, lambda: f"Removed: {', '.join(removed)}." if removed else "There is no such rule."
    )


@alerts.command()
@click.argument("name", metavar="TARGET")
@with_target
@with_screen
async def test(name: str, target: CliTarget, screen: Screen) -> None:
    """Send a test to a target by its name, through the same path as alerts."""
    async with target.open() as app:
        job = await app.alerts.test(name)
    screen.show(
        {"delivery": job.id},
        lambda: (
            f"Enqueued as delivery {job.id}. A worker that knows the target sends it; see `packhorse alerts deliveries`."
        ),
    )


@alerts.command()
@click.option("-n", "--limit", type=click.IntRange(1, LOOKED_AT), default=50, help="At most this many.  [50]")
@with_target
@with_screen
async def deliveries(limit: int, target: CliTarget, screen: Screen) -> None:
    """List deliveries of alerts, the newest first, with the last error of each."""
    async with target.open() as app:
        found = await app.alerts.deliveries(limit)
    rows = [
        (
            one.id, one.enqueued_at, one.rule, one.phase, one.target, one.state.value, one.attempts, one.status,
            one.failures[-1].error if one.failures else None,
        )
        for one in found
    ]  # fmt: skip
    screen.show(
        [_plain(one) for one in found],
        lambda: (
            table(DELIVERIES, rows, right=["attempts", "status"], spare=["id", "status", "attempts"])
            if rows
            else "No alert was sent in the last seven days."
        ),
    )


def _plain(thing: Any) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(thing)
    return data


def _matcher(silence: Any) -> str:
    given = {name: getattr(silence, name) for name in ("rule", "queue", "task", "fingerprint")}
    return " ".join(f"{name}={value}" for name, value in given.items() if value is not None)
