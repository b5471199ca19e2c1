"""One virtual environment per side under ``.bench/``, made on first use from ``pins/<name>.txt``."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".bench"
PINS = Path(__file__).parent / "pins"
SIDES = Path(__file__).parent / "sides"
NODE = "node"
LOOP = """
import time
def turn():
    begun, table = time.perf_counter(), {}
    for number in range(200_000):
        table[number & 255] = str(number) + "x"
    return time.perf_counter() - begun
print(min(turn() for _ in range(7)))
"""


DESCRIBE = """
import platform
print(platform.python_implementation(), platform.python_version() + ",", platform.python_compiler())
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


def described(python: str) -> str:
    """An interpreter without its path: version, compiler, and how long it takes for a plain loop, which tells builds apart."""
    try:
        return f"{_run(python, '-c', DESCRIBE).strip()}, plain loop of 200,000 in {_speed(python) * 1000:.0f} ms"
    except NoEnvironment as error:
        return str(error)


def versions() -> dict[str, str]:
    """The pinned version of what each environment is named after; ours is the commit."""
    pinned = {path.stem: dict(line.split("==") for line in path.read_text().split()) for path in PINS.glob("*.txt")}
    return {name: pins[own] for name, pins in sorted(pinned.items()) if (own := name.removesuffix("_node")) in pins}


def choose(asked: str | None) -> str:
    """The interpreter for all sides: the one asked for, the one chosen before, else the fastest."""
    note = HOME / "python"
    if asked is None and note.exists() and Path(note.read_text()).exists():
        return note.read_text()
    chosen = str(Path(shutil.which(asked) or asked)) if asked else builds()[0].path
    HOME.mkdir(exist_ok=True)
    note.write_text(chosen)
    return chosen


@dataclass(frozen=True, slots=True)
class Environment:
    """How the parts of a side are run: a command that takes the part, and variables."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def ready(script: str, pins: str, python: str) -> Environment:
    """The environment of a side, made if it is not there or its pins have changed. Scripts of Node are reported by their name."""
    listed, folder = PINS / f"{pins}.txt", HOME / "environments" / pins
    node = script.endswith("_node")
    sign = hashlib.sha256(listed.read_bytes() + (NODE if node else python).encode()).hexdigest()
    stamp = folder / "made-of"
    if not stamp.exists() or stamp.read_text() != sign:
        shutil.rmtree(folder, ignore_errors=True)
        (_make_node if node else _make)(folder, listed, python)
        stamp.write_text(sign)
    if node:
        return Environment((NODE, str(SIDES / f"{script}.js")), {"PACKHORSE_BENCH_NODE": str(folder)})
    return of_python(folder / "bin" / "python", script)


def of_python(python: Path, script: str) -> Environment:
    """A side in an environment of Python."""
    return Environment((str(python), "-m", "benchmarks.sides", script), {"PYTHONPATH": str(ROOT / "src")})


def _make(folder: Path, listed: Path, python: str) -> None:
    _run(python, "-m", "venv", str(folder))
    inside = str(folder / "bin" / "python")
    _run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(listed))


def _make_node(folder: Path, listed: Path, _: str) -> None:
    folder.mkdir(parents=True)
    packages = [line.replace("==", "@") for line in listed.read_text().split()]
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages)


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
