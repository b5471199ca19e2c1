"""Wall time and processor time of a stretch: of this process, and of the server with all its children."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Reading:
    """A moment: seconds of the wall, of this process, of the server (None where it is unknown)."""

    wall: float
    own: float
    server: float | None


def read(server: int | None) -> Reading:
    """Read the meters."""
    spent = None if server is None else spent_by(server)
    return Reading(time.perf_counter(), time.process_time(), spent)


def between(start: Reading, end: Reading, jobs: int) -> dict[str, float | None]:
    """What a stretch of so many jobs took: jobs a second, and processor seconds a job of all processes."""
    served = 0.0 if start.server is None or end.server is None else end.server - start.server
    known = (start.server is None) == (end.server is None)
    wall, cpu = end.wall - start.wall, end.own - start.own + served
    return {"jobs": jobs, "seconds": wall, "value": jobs / wall, "cpu": cpu / jobs if known else None}


def spent_by(pid: int) -> float | None:
    """Processor seconds of a process and its children, those that ended too; None without /proc."""
    if not Path(f"/proc/{pid}/stat").exists():
        return None
    ticks = 0
    for member in family(pid):
        with suppress(OSError):  # it ended just now: its parent has its time
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    found, next_ones = [], [pid]
    while next_ones:
        found.append(next_ones.pop())
        with suppress(OSError):
            for thread in Path(f"/proc/{found[-1]}/task").iterdir():
                next_ones += [int(child) for child in (thread / "children").read_text().split()]
    return found


def peak(pid: int) -> int | None:
    """The most memory that a process and its children ever had, added up, in bytes; None without /proc."""
    if not Path(f"/proc/{pid}/status").exists():
        return None
    most = 0
    for member in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{member}/status").read_text().splitlines()
            most += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return most
