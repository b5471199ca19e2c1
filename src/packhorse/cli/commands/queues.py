"""`packhorse queues`: list, pause, resume, empty and await queues."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from packhorse.app import App
from packhorse.cli.bulk import BulkCommand, advancing, many
from packhorse.cli.command import CliError, CommandGroup
from packhorse.cli.filters import Filters
from packhorse.cli.screen import Screen, table, with_screen, with_yes
from packhorse.cli.target import CliTarget, with_target
from packhorse.cli.values import Length, suggestion
from packhorse.jobs.bulk_action import CANCEL_PENDING, PURGE
from packhorse.jobs.explain import length
from packhorse.model.clock import SYSTEM, moment
from packhorse.model.duration import micros
from packhorse.model.job import State
from packhorse.model.queue import QueueStats

POLL_EVERY_US = 200_000
NUMBERS = (*State, "oldest ready", "next due")


@click.group(cls=CommandGroup)
def queues() -> None:
    """Inspect queues, pause or empty them."""


@queues.command()
@with_target
@with_screen
async def ls(target: CliTarget, screen: Screen) -> None:
    """List the queues with the number of their jobs by state."""
    async with target.open() as app:
        store = await app.store()
        now, stats = await store.ping(), await store.queues.stats()
        screen.show(
            [_plain(queue) for queue in stats],
            lambda: (
                table(("queue", *NUMBERS, ""), (_row(queue, now) for queue in stats), right=NUMBERS)
                if stats
                else "No job was enqueued here yet."
            ),
        )


def _plain(queue: QueueStats) -> dict[str, Any]:
    return {
        "queue": queue.name,
        "paused": queue.paused,
        **{state.value: queue.counts.get(state, 0) for state in State},
        "oldest_ready": None if queue.oldest_ready is None else moment(queue.oldest_ready),
        "next_due": None if queue.next_due is None else moment(queue.next_due),
    }


def _row(queue: QueueStats, now: int) -> tuple[object, ...]:
    return (
        queue.name,
        *(queue.counts.get(state, 0) for state in State),
        None if queue.oldest_ready is None else length(now - queue.oldest_ready),
        None if queue.next_due is None else length(queue.next_due - now),
        "paused" if queue.paused else "",
    )


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_target
@with_screen
async def pause(names: Sequence[str], target: CliTarget, screen: Screen) -> None:
    """Pause queues: workers get no more of their jobs. Running jobs go on, and jobs can be enqueued."""
    async with target.open() as app:
        await _known(app, names)
        for name in names:
            await app.queue(name).pause()
    screen.show({"paused": names}, lambda: f"Paused: {', '.join(names)}.")


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_target
@with_screen
async def resume(names: Sequence[str], target: CliTarget, screen: Screen) -> None:
    """Resume queues: workers get their jobs again."""
    async with target.open() as app:
        await _known(app, names)
        for name in names:
            await app.queue(name).resume()
    screen.show({"resumed": names}, lambda: f"Resumed: {', '.join(names)}.")


@queues.command()
@click.argument("name", metavar="QUEUE")
@with_target
@with_yes
@with_screen
async def cancel_pending(name: str, *, yes: bool, target: CliTarget, screen: Screen) -> None:
    """Cancel the jobs of a queue that have not started. Running jobs go on."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        await BulkCommand(CANCEL_PENDING, "cancelled").run(app, (), Filters(queue=name), screen, yes=yes)


@queues.command()
@click.argument("name", metavar="QUEUE")
@with_target
@with_yes
@with_screen
async def purge(name: str, *, yes: bool, target: CliTarget, screen: Screen) -> None:
    """Remove all jobs of a queue, ended and running ones too."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        await BulkCommand(PURGE, "removed").run(app, (), Filters(queue=name), screen, yes=yes)


@queues.command()
@click.argument("name", metavar="QUEUE")
@click.option("--timeout", type=Length(), help="Stop waiting after this time: 90s, 5m.")
@with_target
@with_screen
async def wait(name: str, timeout: timedelta | None, target: CliTarget, screen: Screen) -> None:
    """Wait until no job of a queue is ready or running. Ctrl-C stops only the waiting."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        until = None if timeout is None else SYSTEM.steady() + micros(timeout)
        left = first = await _left(app, name)
        with advancing("ended", screen, first) as advance:
            while left:
                if until is not None and SYSTEM.steady() > until:
                    raise CliError(
                        f"Still ready or running in {name}: {many(left)}. Does a worker serve it? Is it paused?"
                    )
                await SYSTEM.sleep(POLL_EVERY_US)
                before, left = left, await _left(app, name)
                advance(before - left)
    screen.show({"queue": name, "left": 0}, lambda: f"No job of {name} is ready or running.")


async def _left(app: App, name: str) -> int:
    counts = await app.queue(name).counts()
    return counts[State.READY] + counts[State.RUNNING]


async def _known(app: App, names: Sequence[str], *, empty: bool = False) -> None:
    """Raise CliError for a queue that neither the store nor the app knows, before any queue is changed.

    With ``empty``, only a name that is nearly that of another queue is refused.
    """
    known = {queue.name for queue in await (await app.store()).queues.stats()} | set(app.queues)
    for name in names:
        near = suggestion(name, known)
        if name not in known and (near or not empty):
            raise CliError(
                f"There is no queue {name!r}: no job is in it{near or '; if an app has it, name the app with -A.'}"
            )
