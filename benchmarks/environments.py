"""One virtual environment per side under ``.bench/``, made on first use from ``pins/<name>.txt``."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".bench"
PINS = Path(__file__).parent / "pins"
LOOP = """
import time
def turn():
    begun, table = time.perf_counter(), {}
    for number in range(200_000):
        table[number & 255] = str(number) + "x"
    return time.perf_counter() - begun
print(min(turn() for _ in range(7)))
"""


class NoEnvironment(Exception):
    """An environment could not be made."""


@dataclass(frozen=True, slots=True)
class Build:
    """An interpreter and how long it takes for a plain loop: optimised builds are about a quarter faster."""

    path: str
    seconds: float


def builds() -> list[Build]:
    """The interpreters of our own version that are found here, the fastest first."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = getattr(sys, "_base_executable", sys.executable)
    found = (own, shutil.which(name), shutil.which(name, path="/usr/bin"), shutil.which(name, path="/usr/local/bin"))
    paths = {str(Path(path).resolve()): path for path in found if path}
    return sorted((Build(path, _speed(path)) for path in paths.values()), key=lambda build: build.seconds)


def choose(asked: str | None) -> str:
    """The interpreter for all sides: the one asked for, the one chosen before, else the fastest."""
    note = HOME / "python"
    if asked is None and note.exists() and Path(note.read_text()).exists():
        return note.read_text()
    chosen = str(Path(shutil.which(asked) or asked)) if asked else builds()[0].path
    HOME.mkdir(exist_ok=True)
    note.write_text(chosen)
    return chosen


def ready(name: str, python: str) -> Path:
    """The interpreter of the environment of a side, made if it is not there or its pins have changed."""
    pins, folder = PINS / f"{name}.txt", HOME / "environments" / name
    sign = hashlib.sha256(pins.read_bytes() + python.encode()).hexdigest()
    stamp, inside = folder / "made-of", folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != sign:
        shutil.rmtree(folder, ignore_errors=True)
        _run(python, "-m", "venv", str(folder))
        _run(str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins))
        stamp.write_text(sign)
    return inside


def _speed(path: str) -> float:
    return float(_run(path, "-c", LOOP))


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise NoEnvironment(" ".join(lines[-2:]) or f"{command[0]} ended with {error.returncode}") from error
    except OSError as error:
        raise NoEnvironment(str(error)) from error
