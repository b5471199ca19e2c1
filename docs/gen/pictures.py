"""Pictures of the terminal for the README and the docs: ``python -m docs.gen.pictures docs/images``.

Each is what the programs really print in a demo on SQLite, so numbers differ from run to run.
"""

import asyncio
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from packhorse_demo.demo_store import DemoStore, demo_store

LIMIT_SECONDS = 120
WIDTH = 110
WIDE = 140
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # would be fetched from another host
COMMANDS = {"jobs": ("jobs", "ls", "--task", "newsletter"), "doctor": ("doctor",)}


def save(path: Path, title: str, *parts: RenderableType, width: int = WIDTH) -> None:
    """Save what a terminal of this width would show."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, highlight=False)
    for part in parts:
        console.print(part)
    path.write_text(FONT.sub("", console.export_svg(title=title, unique_id=f"packhorse-{path.stem}")))


async def scenes(store: DemoStore, folder: Path) -> None:
    """Save the live view at the moment a worker is killed, and the summary."""
    from packhorse.model.clock import SYSTEM
    from packhorse_demo import scenes
    from packhorse_demo.player import Player, seconds_since
    from packhorse_demo.screen import LiveView
    from packhorse_demo.shop import app
    from packhorse_demo.summary import DemoSummary, counted, drawn
    from packhorse_demo.workers import WorkerProcesses

    killed = asyncio.Event()

    class Camera(LiveView):
        """Notices when to take the picture."""

        def message(self, text: str) -> None:
            super().message(text)
            if "killed" in text:
                killed.set()

    async with app:
        started, picture = SYSTEM.steady(), Camera()
        player = Player(app, WorkerProcesses(store.environment, store.folder / "workers.log"), picture)
        async with player.opened():
            playing = asyncio.create_task(player.round(scenes.found(), LIMIT_SECONDS))
            await killed.wait()
            await picture.refresh(player)
            save(folder / "demo.svg", "packhorse demo", picture)
            await playing
        summary = DemoSummary(store.name, seconds_since(started), tuple(player.results), counted(player.log.counts))
        save(folder / "demo-summary.svg", "packhorse demo --once", drawn(summary))


def command(store: DemoStore, folder: Path, name: str) -> None:
    """Save what a command prints about the store of the demo."""
    words = (*COMMANDS[name], "--url", store.url)
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDE)}
    program = Path(sys.executable).with_name("packhorse")
    output = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False).stdout
    prompt = Text(f"$ packhorse {' '.join(words)}", style="bold")
    save(folder / f"{name}.svg", f"packhorse {words[0]}", prompt, Text.from_ansi(output), width=WIDE)


def main(folder: Path) -> None:
    """Save all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with demo_store(None, keep=False) as store:
        os.environ.update(store.environment)
        asyncio.run(scenes(store, folder))
        for name in COMMANDS:
            command(store, folder, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
