"""`packhorse queues`: queues as a whole."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from packhorse.app import App
from packhorse.cli.acts import CANCEL, REMOVE
from packhorse.cli.bulk import Act, advancing, many
from packhorse.cli.filters import Filters
from packhorse.cli.frame import Group, Trouble
from packhorse.cli.screen import Screen, table, with_screen, with_yes
from packhorse.cli.target import Target, with_target
from packhorse.cli.values import Length, meant
from packhorse.jobs.explain import length
from packhorse.jobs.view import moment
from packhorse.model.clock import SYSTEM
from packhorse.model.duration import micros
from packhorse.model.job import State
from packhorse.model.queue import QueueStats

PAUSE = 200_000  # microseconds
NUMBERS = (*State, "oldest ready", "next due")

# What ``Queue.drain`` does, with a count before it and a bar.
DRAIN = Act("cancelled", (State.WAITING, State.SCHEDULED, State.READY), CANCEL.write)


@click.group(cls=Group)
def queues() -> None:
    """Look at queues, pause them, empty them."""


@queues.command()
@with_target
@with_screen
async def ls(target: Target, screen: Screen) -> None:
    """List the queues with their jobs by state."""
    async with target.open() as app:
        store = await app.store()
        now, stats = await store.ping(), await store.queues.stats()
        screen.show(
            [_plain(queue) for queue in stats],
            lambda: (
                table(("queue", *NUMBERS, ""), (_row(queue, now) for queue in stats), right=NUMBERS)
                if stats
                else "No job was ever enqueued here."
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
async def pause(names: Sequence[str], target: Target, screen: Screen) -> None:
    """Give workers no more jobs of these queues; what runs goes on, and jobs can be enqueued."""
    async with target.open() as app:
        await _known(app, names)
        for name in names:
            await app.queue(name).pause()
    screen.show({"paused": names}, lambda: f"Paused: {', '.join(names)}.")


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_target
@with_screen
async def resume(names: Sequence[str], target: Target, screen: Screen) -> None:
    """Give workers jobs of these queues again."""
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
async def drain(name: str, *, yes: bool, target: Target, screen: Screen) -> None:
    """Cancel the jobs of a queue that have not begun; what runs goes on (see wait)."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        await DRAIN.run(app, (), Filters(queue=name), screen, yes=yes)


@queues.command()
@click.argument("name", metavar="QUEUE")
@with_target
@with_yes
@with_screen
async def purge(name: str, *, yes: bool, target: Target, screen: Screen) -> None:
    """Remove all jobs of a queue, ended and running ones too."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        await REMOVE.run(app, (), Filters(queue=name), screen, yes=yes)


@queues.command()
@click.argument("name", metavar="QUEUE")
@click.option("--timeout", type=Length(), help="Give up after so long: 90s, 5m.")
@with_target
@with_screen
async def wait(name: str, timeout: timedelta | None, target: Target, screen: Screen) -> None:
    """Wait until nothing of a queue is ready or running; Ctrl-C ends the waiting and nothing else."""
    async with target.open() as app:
        await _known(app, [name], empty=True)
        until = None if timeout is None else SYSTEM.steady() + micros(timeout)
        left = first = await _left(app, name)
        with advancing("ended", screen, first) as advance:
            while left:
                if until is not None and SYSTEM.steady() > until:
                    raise Trouble(f"Still ready or running in {name}: {many(left)}. Is a worker there, is it paused?")
                await SYSTEM.sleep(PAUSE)
                before, left = left, await _left(app, name)
                advance(before - left)
    screen.show({"queue": name, "left": 0}, lambda: f"Nothing of {name} is ready or running.")


async def _left(app: App, name: str) -> int:
    counts = await app.queue(name).counts()
    return counts[State.READY] + counts[State.RUNNING]


async def _known(app: App, names: Sequence[str], *, empty: bool = False) -> None:
    """Refuse a queue that neither the store nor the app knows, before anything is done to the others.

    If it may be ``empty``, only one whose name is nearly that of another is refused.
    """
    known = {queue.name for queue in await (await app.store()).queues.stats()} | set(app.queues)
    for name in names:
        near = meant(name, known)
        if name not in known and (near or not empty):
            raise Trouble(
                f"There is no queue {name!r}: no job is in it{near or '; name the app that has it, with -A.'}"
            )
