"""One performance from the opening of the place to the last word."""

import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.live import Live

from packhorse.cli import exits
from packhorse.cli.demo import scenes
from packhorse.cli.demo.fleet import Fleet
from packhorse.cli.demo.place import NAMESPACE, Place, clear, purge
from packhorse.cli.demo.screen import Lines, Picture
from packhorse.cli.demo.shop import app
from packhorse.cli.demo.show import Show, contents, seconds_since
from packhorse.cli.demo.summary import Summary, counted, drawn
from packhorse.cli.screen import Screen
from packhorse.model.clock import SYSTEM
from packhorse.stores.url import shown

TERMINATED = "SIGTERM"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was said about this performance."""

    live: bool
    keep: bool
    yes: bool
    limit: float


async def perform(place: Place, screen: Screen, wishes: Wishes) -> int:
    """Play, show the summary, and answer the exit code."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # not on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel, TERMINATED)
    async with app:
        await clear(app, place, partial(screen.gate, yes=wishes.yes))
        summary, stopped = await _played(place, screen, wishes)
        if not place.own and not wishes.keep:
            await purge(app)
    screen.show(summary.plain(), lambda: drawn(summary))
    for line in next_steps(place, wishes):
        screen.say(line)
    if stopped is not None and not wishes.live:
        return exits.STOPPED + stopped
    return exits.OK if summary.passed else exits.FAILED


async def _played(place: Place, screen: Screen, wishes: Wishes) -> tuple[Summary, signal.Signals | None]:
    begun, notes = SYSTEM.steady(), place.folder / "workers.log"
    audience = Picture() if wishes.live else Lines(screen.say)
    show = Show(app, Fleet(place.environment, notes), audience)
    async with show.opened():
        if isinstance(audience, Picture):
            stopped = await _live(show, wishes.limit, audience, screen)
        else:
            stopped = await _once(show, wishes.limit)
        await show.log.caught_up()
    there = {played.name for played in show.played}
    missing = () if wishes.live else tuple(scene.name for scene in scenes.found() if scene.name not in there)
    summary = Summary(place.name, seconds_since(begun), tuple(show.played), counted(show.log.counts), missing)
    if not summary.passed:
        summary = summary.with_store([*await contents(app), "The workers said last:", show.fleet.last_words()])
    return summary, stopped


async def _once(show: Show, limit: float) -> signal.Signals | None:
    """Play every scene once; answer what cut it short."""
    try:
        await show.round(scenes.found(), limit)
    except asyncio.CancelledError as error:
        return _stopped(error)
    return None


async def _live(show: Show, limit: float, picture: Picture, screen: Screen) -> signal.Signals | None:
    """Play until somebody stops it."""
    watching = asyncio.create_task(picture.watch(show))
    try:
        with Live(picture, console=screen.console, screen=True, refresh_per_second=8):
            async with show.flow():
                while await show.round(scenes.found(), limit):
                    pass
    except asyncio.CancelledError as error:
        return _stopped(error)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return None


def _stopped(error: asyncio.CancelledError) -> signal.Signals:
    """Go on to the summary after Ctrl-C, and say which signal it was. Pressed again, all ends at once."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    return signal.SIGTERM if TERMINATED in error.args else signal.SIGINT


def next_steps(place: Place, wishes: Wishes) -> list[str]:
    """What to do now."""
    namespace = "" if place.scheme == "sqlite" else f" --namespace {NAMESPACE}"
    look = f"jobs ls --url {shown(place.url)}{namespace}" if wishes.keep else "demo --once --keep"
    steps = {
        f"{_program()} {look}": "look at its jobs",
        "less docs/tutorial.md": "write a task of your own",
        "make docs": "read on",
    }
    width = max(map(len, steps))
    return ["", "What next:", *(f"  {command:<{width}}  {why}" for command, why in steps.items())]


def _program() -> str:
    """How to call the command: by its path, as ``make demo`` does, where its environment is not active."""
    called = Path(sys.argv[0])
    return str(called) if called.stem == "packhorse" and shutil.which("packhorse") is None else "packhorse"
