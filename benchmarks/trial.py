"""One trial: an empty store, a producer that fills it, workers that empty it, jobs at a steady pace; or a part of that."""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.contest import Contestant
from benchmarks.environments import ROOT, Environment
from benchmarks.exercises import WARM, Exercise, Kind, Size
from benchmarks.places import Place
from benchmarks.sides import meter
from benchmarks.sides.order import Order
from benchmarks.sides.tally import BACKLOG, PACED, SHEET, WARMING, sheet

PATIENCE, PATIENT = 60.0, 4  # seconds at least; times of what is expected: rates fall as a store fills
GLANCE, COUNTED = 0.01, 4e6  # seconds between two looks at a sheet, more if there is more to count
LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None) if LINUX else None
DIES_WITH_PARENT = 1  # of prctl
Process = subprocess.Popen[bytes]


class Failed(Exception):
    """A side did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class Trial:
    """All that a course needs to know."""

    side: Contestant
    exercise: Exercise
    place: Place
    environment: Environment
    order: Order
    takes: float

    @property
    def folder(self) -> Path:
        """Where the processes of the trial write."""
        return Path(self.order.folder)

    @property
    def patience(self) -> float:
        """How long a part may take: some times of what is expected of the longest one."""
        return max(PATIENCE, self.order.seconds * 12, self.takes * PATIENT)


def trial(side: Contestant, exercise: Exercise, place: Place, environment: Environment, size: Size) -> dict[str, Any]:
    """Measure a side once, and answer its metrics; raise ``Failed`` unless every job ran and ended."""
    with tempfile.TemporaryDirectory(prefix="packhorse-bench-") as folder:
        warm = size.one // 10 or min(WARM, size.jobs)
        order = Order(
            url=place.empty(),
            folder=folder,
            warm=warm,
            one=size.one,
            bulk=size.jobs - size.one - warm,
            chunk=exercise.chunk or side.chunk,
            paced=size.paced,
            rate=size.rate,
            server=place.server,
            options=side.options,
            work=exercise.work,
            option=exercise.option,
            together=exercise.together,
            shared=exercise.shared,
            seconds=size.seconds,
        )
        return COURSES[exercise.kind](Trial(side, exercise, place, environment, order, size.takes))


def _whole(trial: Trial) -> dict[str, Any]:
    filled = _asked(trial, "fill")
    with _workers(trial) as workers:
        backlog = _through(trial, workers)
        waits = _paced(trial, workers)
        most = _summed(meter.peak, workers)
    reported = {"python": filled["python"], "process": backlog, "one": filled["one"], "bulk": filled["bulk"]}
    return {name: value for name, value in reported.items() if value} | spread(waits) | {"rss": {"value": most}}


def _drain(trial: Trial) -> dict[str, Any]:
    filled = _asked(trial, "fill")
    with _workers(trial) as workers:
        backlog = _through(trial, workers)
        _paced(trial, workers)
    return {"process": backlog, "bulk": filled["bulk"]}


def _fill(trial: Trial) -> dict[str, Any]:
    filled = _asked(trial, "fill")
    left = _asked(trial, "left")["left"]
    if left != trial.order.backlog:
        raise Failed(f"{trial.order.backlog} jobs were enqueued, the store holds {left}")
    return {trial.exercise.name: filled[trial.exercise.name]}


def _pace(trial: Trial) -> dict[str, Any]:
    _asked(trial, "fill")
    with _workers(trial) as workers:
        _through(trial, workers)
        reported = spread(_paced(trial, workers))
    return {f"half-{name}": value for name, value in reported.items()} | {"rate": trial.order.rate}


def _idle(trial: Trial) -> dict[str, Any]:
    _asked(trial, "fill")
    with _workers(trial) as workers:
        _through(trial, workers)
        _paced(trial, workers)
        before, begun = _summed(meter.spent_by, workers), time.monotonic()
        time.sleep(max(1.0, trial.order.seconds))
        after, spent = _summed(meter.spent_by, workers), time.monotonic() - begun
    return {"idle": {"value": (after - before) / spent}}


def _bytes(trial: Trial) -> dict[str, Any]:
    _asked(trial, "setup")
    prepared = replace(trial, order=replace(trial.order, prepared=True))
    empty = trial.place.weigh()
    _asked(prepared, "fill")
    full = trial.place.weigh()
    with _workers(prepared) as workers:
        _through(prepared, workers)
        _paced(prepared, workers)
        ended = trial.place.weigh()
    jobs = trial.order.backlog
    return {"queued": {"value": (full - empty) / jobs}, "finished": {"value": max(0, ended - empty) / jobs}}


def _limits(trial: Trial) -> dict[str, Any]:
    return {"limits": _asked(trial, "limits")}


COURSES: Mapping[Kind, Callable[[Trial], dict[str, Any]]] = {
    Kind.WHOLE: _whole,
    Kind.DRAIN: _drain,
    Kind.FILL: _fill,
    Kind.PACE: _pace,
    Kind.IDLE: _idle,
    Kind.BYTES: _bytes,
    Kind.LIMITS: _limits,
}


def spread(waits: Sequence[float]) -> dict[str, dict[str, float]]:
    """What is set for many latencies."""
    ordered = sorted(waits)
    reported = {"p50": share(ordered, 0.5), "p99": share(ordered, 0.99), "max": ordered[-1]}
    return {name: {"value": value, "jobs": len(ordered)} for name, value in reported.items()}


def share(ordered: Sequence[float], part: float) -> float:
    """The smallest value that this part of the ordered values does not exceed."""
    return ordered[max(1, math.ceil(len(ordered) * part)) - 1]


def last(text: str) -> str:
    """The last line that says something: of a traceback, the error."""
    given = (line.strip(" |+-") for line in reversed(text.splitlines()))  # groups of errors are framed
    return next(filter(None, given), "it given nothing")


# -- the processes of a trial


def _variables(trial: Trial) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PACKHORSE_", "PYTHON"))}
    return {**kept, "PYTHONWARNINGS": "ignore", **trial.environment.variables, **trial.order.environment()}


def _asked(trial: Trial, part: str) -> dict[str, Any]:
    try:
        asked = subprocess.run(
            [*trial.environment.command, part],
            env=_variables(trial), cwd=ROOT, capture_output=True, text=True, timeout=trial.patience, check=False,
            preexec_fn=_die_with_parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{part}: not through within {trial.patience:.0f} s") from error
    if asked.returncode:
        raise Failed(f"{part}: {last(asked.stderr)}")
    answer: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return answer


@contextmanager
def _workers(trial: Trial) -> Iterator[list[Process]]:
    log = trial.folder / "log"
    (trial.folder / SHEET).write_bytes(bytes(trial.order.backlog))
    with ExitStack() as stack:
        try:
            yield [stack.enter_context(_worker(trial, log)) for _ in range(trial.exercise.workers)]
        except Failed as error:
            raise Failed(f"{error}; {last(log.read_text(errors='replace'))}") from error


@contextmanager
def _worker(trial: Trial, log: Path) -> Iterator[Process]:
    with log.open("ab") as file:
        worker = subprocess.Popen(
            [*trial.environment.command, "work"],
            env=_variables(trial), cwd=ROOT, stdout=file, stderr=file, start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is one thread
        )  # fmt: skip
    try:
        yield worker
    finally:
        with suppress(ProcessLookupError):  # it ended by itself, which is reported
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def _die_with_parent() -> None:
    """In a new process: end when the run is killed, so that no worker goes on by itself and disturbs the next run."""
    if LIBC is not None:
        LIBC.prctl(DIES_WITH_PARENT, signal.SIGKILL)


def _summed(read: Callable[[int], float | None], workers: Sequence[Process]) -> float:
    return sum(read(worker.pid) or 0 for worker in workers)


# -- waiting for them


def _through(trial: Trial, workers: Sequence[Process]) -> dict[str, Any]:
    """How fast the backlog was worked off."""
    if trial.exercise.shared:
        return _watched(trial, workers)
    backlog: dict[str, Any] = _written(trial, BACKLOG, workers)
    return backlog


def _paced(trial: Trial, workers: Sequence[Process]) -> list[float]:
    """See that nothing is left, send the paced jobs, and answer how long each waited."""
    left = _asked(trial, "pace")["left"]
    if left:
        raise Failed(f"all of {trial.order.backlog} jobs ran, {left} are left in the store")
    waits: list[float] = _written(trial, PACED, workers) if trial.order.paced else []
    return waits


def _written(trial: Trial, name: str, workers: Sequence[Process]) -> Any:
    path = trial.folder / name
    _await(trial, path.exists, workers, path.stem, 0.02)
    return json.loads(path.read_text())


def _watched(trial: Trial, workers: Sequence[Process]) -> dict[str, Any]:
    """Watch several processes tick jobs off on one sheet."""
    ticks, jobs = sheet(trial.folder), trial.order.backlog
    pause = max(GLANCE, jobs / COUNTED)

    def until(wanted: int) -> tuple[int, meter.Reading]:
        _await(trial, lambda: jobs - ticks[:].count(0) >= wanted, workers, SHEET, pause)
        server = None if trial.order.server is None else meter.spent_by(trial.order.server)
        reading = meter.Reading(time.perf_counter(), _summed(meter.spent_by, workers), server)
        return jobs - ticks[:].count(0), reading

    before = until(0)
    first, start = until(max(1, jobs // WARMING))
    ran, end = until(jobs)
    if ran == first:  # all within one glance: the start of the workers is counted too
        first, start = before
    return {**meter.between(start, end, ran - first), "ran": ran, "twice": ticks[:].count(2)}


def _await(trial: Trial, condition: Callable[[], bool], workers: Sequence[Process], what: str, pause: float) -> None:
    until = time.monotonic() + trial.patience
    while not condition():
        for worker in workers:
            if worker.poll() is not None:
                raise Failed(f"the worker ended with {worker.returncode}")
        if time.monotonic() > until:
            raise Failed(f"{what}: not through within {trial.patience:.0f} s")
        time.sleep(pause)
