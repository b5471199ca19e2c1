"""Pictures of the terminal for the README and the docs: ``python -m packhorse.cli.demo.recording docs/images``.

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

from packhorse.cli.demo.place import Place, place

LIMIT = 120
WIDTH = 110
WIDE = 140
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # would be fetched from elsewhere; any monospace font will do
COMMANDS = {"jobs": ("jobs", "ls", "--task", "newsletter"), "doctor": ("doctor",)}


def save(path: Path, title: str, *parts: RenderableType, width: int = WIDTH) -> None:
    """Print to a terminal of paper."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, highlight=False)
    for part in parts:
        console.print(part)
    path.write_text(FONT.sub("", console.export_svg(title=title, unique_id=f"packhorse-{path.stem}")))


async def scenes(where: Place, folder: Path) -> None:
    """The screen at the moment a worker was killed, and the summary."""
    from packhorse.cli.demo import scenes
    from packhorse.cli.demo.fleet import Fleet
    from packhorse.cli.demo.screen import Picture
    from packhorse.cli.demo.shop import app
    from packhorse.cli.demo.show import Show, seconds_since
    from packhorse.cli.demo.summary import Summary, counted, drawn
    from packhorse.model.clock import SYSTEM

    killed = asyncio.Event()

    class Camera(Picture):
        """Notes when to take the picture."""

        def tell(self, text: str) -> None:
            super().tell(text)
            if "killed" in text:
                killed.set()

    async with app:
        begun, picture = SYSTEM.steady(), Camera()
        show = Show(app, Fleet(where.environment, where.folder / "workers.log"), picture)
        async with show.opened():
            playing = asyncio.create_task(show.round(scenes.found(), LIMIT))
            await killed.wait()
            await picture.look(show)
            save(folder / "demo.svg", "packhorse demo", picture)
            await playing
        summary = Summary(where.name, seconds_since(begun), tuple(show.played), counted(show.log.counts))
        save(folder / "demo-summary.svg", "packhorse demo --once", drawn(summary))


def command(where: Place, folder: Path, name: str) -> None:
    """What a command prints about the store of the demo."""
    words = (*COMMANDS[name], "--url", where.url)
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDE)}
    program = Path(sys.executable).with_name("packhorse")
    said = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False).stdout
    prompt = Text(f"$ packhorse {' '.join(words)}", style="bold")
    save(folder / f"{name}.svg", f"packhorse {words[0]}", prompt, Text.from_ansi(said), width=WIDE)


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with place(None, keep=False) as where:
        os.environ.update(where.environment)
        asyncio.run(scenes(where, folder))
        for name in COMMANDS:
            command(where, folder, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
