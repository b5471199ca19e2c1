"""Run the demo from an empty store to the summary."""

import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.live import Live

from packhorse.cli import exit_codes
from packhorse.cli.screen import Screen
from packhorse.model.clock import SYSTEM
from packhorse.stores.url import shown
from packhorse_demo import scenes
from packhorse_demo.demo_store import NAMESPACE, DemoStore, clear, purge
from packhorse_demo.player import Player, contents, seconds_since
from packhorse_demo.screen import LiveView, TextView
from packhorse_demo.shop import app
from packhorse_demo.summary import DemoSummary, counted, drawn
from packhorse_demo.workers import WorkerProcesses

TERMINATED = "SIGTERM"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command."""

    live: bool
    keep: bool
    yes: bool
    limit: float


async def perform(store: DemoStore, screen: Screen, options: DemoOptions) -> int:
    """Run the scenes, print the summary and return the exit code."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # not on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel, TERMINATED)
    async with app:
        await clear(app, store, partial(screen.confirm, yes=options.yes))
        summary, stopped = await _run_scenes(store, screen, options)
        if not store.own and not options.keep:
            await purge(app)
    screen.show(summary.plain(), lambda: drawn(summary))
    for line in next_steps(store, options):
        screen.say(line)
    if stopped is not None and not options.live:
        return exit_codes.STOPPED + stopped
    return exit_codes.OK if summary.passed else exit_codes.FAILED


async def _run_scenes(
    store: DemoStore, screen: Screen, options: DemoOptions
) -> tuple[DemoSummary, signal.Signals | None]:
    started, output = SYSTEM.steady(), store.folder / "workers.log"
    view = LiveView() if options.live else TextView(screen.say)
    player = Player(app, WorkerProcesses(store.environment, output), view)
    async with player.opened():
        if isinstance(view, LiveView):
            stopped = await _live(player, options.limit, view, screen)
        else:
            stopped = await _once(player, options.limit)
        await player.log.caught_up()
    names = {result.name for result in player.results}
    missing = () if options.live else tuple(scene.name for scene in scenes.found() if scene.name not in names)
    summary = DemoSummary(
        store.name, seconds_since(started), tuple(player.results), counted(player.log.counts), missing
    )
    if not summary.passed:
        summary = summary.with_store(
            [*await contents(app), "Last output of the workers:", player.workers.output_tail()]
        )
    return summary, stopped


async def _once(player: Player, limit: float) -> signal.Signals | None:
    """Run every scene once; return the signal that stopped it, if any."""
    try:
        await player.round(scenes.found(), limit)
    except asyncio.CancelledError as error:
        return _stopped(error)
    return None


async def _live(player: Player, limit: float, view: LiveView, screen: Screen) -> signal.Signals | None:
    """Repeat the scenes until a signal."""
    watching = asyncio.create_task(view.watch(player))
    try:
        with Live(view, console=screen.console, screen=True, refresh_per_second=8):
            async with player.orders():
                while await player.round(scenes.found(), limit):
                    pass
    except asyncio.CancelledError as error:
        return _stopped(error)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return None


def _stopped(error: asyncio.CancelledError) -> signal.Signals:
    """Continue to the summary after a signal; return the signal. A second one ends the demo at once."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    return signal.SIGTERM if TERMINATED in error.args else signal.SIGINT


def next_steps(store: DemoStore, options: DemoOptions) -> list[str]:
    """Suggest what to do next; files of the repository only in a clone."""
    namespace = "" if store.scheme == "sqlite" else f" --namespace {NAMESPACE}"
    look = f"jobs ls --url {shown(store.url)}{namespace}" if options.keep else "demo --once --keep"
    steps = {f"{_program()} {look}": "list its jobs"}
    if Path("docs/tutorial.md").is_file():
        steps |= {"less docs/tutorial.md": "write a task of your own", "make docs": "build the documentation"}
    width = max(map(len, steps))
    return ["", "What next:", *(f"  {command:<{width}}  {why}" for command, why in steps.items())]


def _program() -> str:
    """Return how to call the command: by its path if its environment is not active."""
    called = Path(sys.argv[0])
    return str(called) if called.stem == "packhorse" and shutil.which("packhorse") is None else "packhorse"
