"""Turns of sides, one after the other, so that what else the machine does falls on all of them. Resumable."""

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import environments, machine, places
from benchmarks.contest import Contestant
from benchmarks.exercises import Exercise, Size
from benchmarks.trial import Failed, trial

Lines = list[dict[str, Any]]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One trial to be made. Rounds count from 1; in round 0 sides show that they work, and how fast."""

    side: Contestant
    exercise: Exercise
    round: int
    size: Size


class Session:
    """Servers that stay up and environments for all turns of a plan, and a file that gets a line for each."""

    def __init__(
        self, plan: str, python: str, out: Path, say: Say, *, servers: Mapping[str, str] | None = None
    ) -> None:
        self.lines = read(out)
        self._plan, self._python, self._out, self._say = plan, python, out, say
        self._done = {key(line): line for line in self.lines if "metrics" in line}
        self._places: dict[str, places.Place] = {}
        self._servers = servers or {}
        self._inside: dict[str, environments.Environment | str] = {}
        self._stack = ExitStack()
        self.begun = False

    def __enter__(self) -> "Session":
        self._file = self._stack.enter_context(self._out.open("a"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def take(self, turn: Turn, *, again: bool = False) -> dict[str, Any] | None:
        """Make a trial, unless the file has it already, and answer its metrics; None if it failed, which is written too.

        ``again`` makes it in any case: of two lines the later one counts.
        """
        about = {"plan": self._plan, "exercise": turn.exercise.name, "round": turn.round, "side": asdict(turn.side)}
        line = None if again else self._done.get(key(about))
        if line is None:
            if not self.begun:
                self.begun = True
                self._keep({"begun": round(time.time()), **circumstances(self._python)})
            line = self._tried(turn, about)
            self._keep(line)
        return line.get("metrics")

    def leave(self, side: Contestant, exercise: Exercise, why: str) -> None:
        """Write that an exercise was not tried."""
        about = {"plan": self._plan, "exercise": exercise.name, "round": 0, "side": asdict(side)}
        self._say(f"{exercise.name}, {side.name} on {side.store}: {why}")
        self._keep({**about, "error": why})

    def _keep(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _tried(self, turn: Turn, about: dict[str, Any]) -> dict[str, Any]:
        side = turn.side
        inside = self._environment(side)
        if isinstance(inside, str):
            return {**about, "error": f"no environment: {inside}"}
        self._say(f"round {turn.round}: {turn.exercise.name}, {side.name} on {side.store}")
        line = {**about, "size": asdict(turn.size), "at": round(time.time(), 1), "load": os.getloadavg()[0]}
        begun = time.monotonic()
        try:
            metrics = trial(side, turn.exercise, self._place(side.store), inside, turn.size)
        except Failed as error:
            return {**line, "error": f"{error} (it needs {side.needs})" if side.needs else str(error)}
        except Exception as error:  # noqa: BLE001 - a bad trial must not end the others
            return {**line, "error": f"{type(error).__name__}: {error}", "harness": True}
        return {**line, "seconds": time.monotonic() - begun, "metrics": metrics}

    def _environment(self, side: Contestant) -> environments.Environment | str:
        if side.script not in self._inside:
            self._say(f"environment of {side.script}")
            try:
                self._inside[side.script] = environments.ready(side.script, side.environment, self._python)
            except environments.NoEnvironment as error:
                self._inside[side.script] = str(error)
        return self._inside[side.script]

    def _place(self, store: str) -> places.Place:
        if store not in self._places:
            self._places[store] = self._stack.enter_context(places.opened(store, server=self._servers.get(store)))
            self._keep({"store": store, "what": self._places[store].what})
        return self._places[store]


def circumstances(python: str) -> dict[str, Any]:
    """What to know about a run: the commit, the machine, the interpreter, the versions of all sides."""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = bool(_git("status", "--porcelain", "--", "src", "benchmarks"))
    return {
        "commit": f"{commit} with changes" if changed else commit,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **machine.described(tempfile.gettempdir(), environments.ROOT),
        "python": environments.described(python),
        "versions": environments.versions(),
    }


def _git(*words: str) -> str:
    asked = subprocess.run(["git", *words], cwd=environments.ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def read(out: Path) -> Lines:
    """The lines of an earlier run, a torn last one left out."""
    lines = []
    for text in out.read_text().splitlines() if out.exists() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def failed(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Trials that failed, the last time that they were tried."""
    latest = {key(line): line for line in lines if "side" in line}
    return [line for line in latest.values() if "error" in line]


def ours(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of those that failed, what a peer cannot be blamed for: our own side, the bare stores, the measuring itself."""
    return [line for line in failed(lines) if line.get("harness") or line["side"]["name"] in ("packhorse", "limit")]


def ends_on_term() -> None:
    """Let SIGTERM end a run as Ctrl-C does: workers and servers are stopped, what was measured is kept."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a trial the same as one of an earlier run: the plan, the exercise, the side as configured, the round."""
    return line["plan"], line["exercise"], line["round"], json.dumps(line["side"], sort_keys=True)
