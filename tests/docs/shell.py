"""A console on a page as something that can be typed: commands after ``$``, and below each what it prints.

A line or a part of one that is ``…`` stands for anything. A command that ends in ``&`` runs until the end of the page.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROMPT = "$ "
PATIENCE = 60


class Shell:
    """A shell in the folder of a page, where the commands of this environment are found and nothing is set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PACKHORSE_")}
        path = os.pathsep.join((str(Path(sys.executable).parent), kept["PATH"]))
        self._environment = kept | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
        self._below: list[subprocess.Popen[bytes]] = []

    def type(self, text: str) -> None:
        """Type the commands of a console and see that each prints what is below it."""
        for command, told in commands(text):
            if command.endswith("&"):
                self._below.append(self._start(command.removesuffix("&"), subprocess.DEVNULL))
                continue
            running = self._start(command, subprocess.PIPE)
            printed, _ = running.communicate(timeout=PATIENCE)
            shown = printed.decode()
            assert running.returncode == 0, f"{command} ended with {running.returncode}:\n{shown}"
            assert not told or fits(told, shown), f"{command} printed\n{shown}"

    def close(self) -> None:
        """End what still runs, as Ctrl-C would."""
        for running in self._below:
            running.send_signal(signal.SIGINT)
        codes = [running.wait(PATIENCE) for running in self._below]
        assert set(codes) <= {0, 130, -signal.SIGINT}, codes

    def _start(self, command: str, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}" if output == subprocess.DEVNULL else command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what is below it."""
    for part in re.split(rf"^{re.escape(PROMPT)}", text, flags=re.MULTILINE)[1:]:
        command, _, told = part.partition("\n")
        yield command.strip(), told


def fits(told: str, printed: str) -> bool:
    """Whether what was printed is what the page tells."""
    pattern = re.escape(told.strip()).replace("…", ".*")
    return (
        re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().splitlines()), re.DOTALL) is not None
    )
