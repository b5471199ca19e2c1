"""One trial: an empty store, a producer that fills it, a worker that empties it, then jobs at a steady pace."""

import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contest import Contestant
from benchmarks.environments import ROOT
from benchmarks.places import Place
from benchmarks.sides.order import Order
from benchmarks.sides.tally import BACKLOG, PACED

PATIENCE = 60.0


class Failed(Exception):
    """A side did not do what it was asked for."""


def trial(side: Contestant, place: Place, python: Path, *, one: int, paced: int) -> dict[str, Any]:
    """Measure a side once, and answer its metrics; raise ``Failed`` unless every job ran and ended."""
    with tempfile.TemporaryDirectory(prefix="packhorse-bench-") as folder:
        order = Order(
            url=place.empty(),
            folder=folder,
            warm=one // 10,
            one=one,
            bulk=side.jobs - one - one // 10,
            chunk=side.chunk,
            paced=paced,
            server=place.server,
            options=side.options,
        )
        filled = _asked(side, python, order, "fill")
        with _worker(side, python, order) as worker:
            backlog = _written(Path(folder) / BACKLOG, worker)
            rest = _asked(side, python, order, "pace")
            if rest["left"] or backlog["ran"] != order.backlog:
                raise Failed(f"{backlog['ran']} of {order.backlog} jobs ran, {rest['left']} are left in the store")
            waits = sorted(_written(Path(folder) / PACED, worker))
        return {
            "python": filled["python"],
            "process": backlog,
            "one": filled["one"],
            "bulk": filled["bulk"],
            "latency": {"jobs": len(waits), "p50": share(waits, 0.5), "p99": share(waits, 0.99), "max": waits[-1]},
        }


def share(ordered: list[float], part: float) -> float:
    """The smallest value that this part of the ordered values does not exceed."""
    return ordered[max(1, math.ceil(len(ordered) * part)) - 1]


def last(text: str) -> str:
    """The last line that says something: of a traceback, the error."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def _command(side: Contestant, python: Path, part: str) -> list[str]:
    return [str(python), "-m", "benchmarks.sides", side.script, part]


def _environment(order: Order) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PACKHORSE_", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore", **order.environment()}


def _asked(side: Contestant, python: Path, order: Order, part: str) -> dict[str, Any]:
    asked = subprocess.run(
        _command(side, python, part),
        env=_environment(order), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if asked.returncode:
        raise Failed(f"{part}: {last(asked.stderr)}")
    answer: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return answer


@contextmanager
def _worker(side: Contestant, python: Path, order: Order) -> Iterator["subprocess.Popen[bytes]"]:
    with (Path(order.folder) / "log").open("wb") as log:
        worker = subprocess.Popen(
            _command(side, python, "work"),
            env=_environment(order), cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield worker
        except Failed as error:
            raise Failed(f"{error}; {last(Path(log.name).read_text(errors='replace'))}") from error
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def _written(path: Path, worker: "subprocess.Popen[bytes]") -> Any:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        if worker.poll() is not None:
            raise Failed(f"the worker ended with {worker.returncode}")
        if time.monotonic() > until:
            raise Failed(f"{path.stem}: not through within {PATIENCE:.0f} s")
        time.sleep(0.02)
    return json.loads(path.read_text())
