"""A console on a page as something that can be typed: commands after ``$``, and below each what it prints.

A line or a part of one that is ``…`` stands for anything. A command that ends in ``&`` runs until the end of the page, or until
``kill %1`` for the first of them.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROMPT = "$ "
KILL = re.compile(r"kill %(\d+)")
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
        for command, reported in commands(text):
            if command.endswith("&"):
                self._below.append(self._start(command.removesuffix("&"), subprocess.DEVNULL))
                continue
            if killed := KILL.fullmatch(command):
                self._end(self._below[int(killed[1]) - 1])
                continue
            running = self._start(command, subprocess.PIPE)
            printed, _ = running.communicate(timeout=PATIENCE)
            shown = printed.decode()
            assert running.returncode == 0, f"{command} ended with {running.returncode}:\n{shown}"
            assert not reported or fits(reported, shown), f"{command} printed\n{shown}"

    def close(self) -> None:
        """End what still runs."""
        for running in self._below:
            self._end(running)

    def _end(self, running: subprocess.Popen[bytes]) -> None:
        running.terminate()
        assert running.wait(PATIENCE) == 0, f"{running.args!r} ended with {running.returncode}"

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
        command, _, reported = part.partition("\n")
        yield command.strip(), reported


def fits(reported: str, printed: str) -> bool:
    """Whether what was printed is what the page tells."""
    pattern = re.escape(reported.strip()).replace("…", ".*")
    return (
        re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().splitlines()), re.DOTALL) is not None
    )
