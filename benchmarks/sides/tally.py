"""Counts the jobs that a worker runs, and writes down when the backlog and the paced jobs are through."""

import itertools
import json
import mmap
import time
from pathlib import Path
from typing import Any

from benchmarks.sides import meter
from benchmarks.sides.order import Order

BACKLOG, PACED, SHEET = "backlog.json", "paced.json", "sheet"
WARMING = 10  # one part in so many of the backlog is not measured: imports, caches, the first batches


class Tally:
    """Called by many threads: what must not be torn is a single step of the interpreter.

    Jobs that several processes share are only ticked off on a sheet, a byte a job; whoever started the workers reads it.
    """

    def __init__(self, order: Order) -> None:
        self._order, self._folder = order, Path(order.folder)
        self._calls, self._paced = itertools.count(1), itertools.count(1)
        self._seen: bytearray | mmap.mmap = bytearray(order.backlog)
        self._waits: list[float] = []
        self._twice = 0
        self._from, self._to = order.backlog // WARMING, order.backlog
        self._start: meter.Reading | None = None
        self._read = False

    def hit(self, number: int, sent: float) -> None:
        """The whole body of the no-op; a negative number only warms up."""
        if sent:
            self._waits.append(time.time() - sent)
            if next(self._paced) == self._order.paced:
                self._write(PACED, self._waits)
        elif number >= 0:
            if self._order.shared and not self._read:
                self._seen, self._read = sheet(self._folder), True
            if self._seen[number]:
                self._twice += 1
                self._seen[number] = 2
                return
            self._seen[number] = 1
            call = next(self._calls)
            if call == self._from:
                self._start = meter.read(self._order.server)
            elif call == self._to:
                self._end()

    def _end(self) -> None:
        end = meter.read(self._order.server)
        assert self._start is not None
        stretch = meter.between(self._start, end, self._to - self._from)
        self._write(BACKLOG, {**stretch, "ran": self._to, "twice": self._twice})

    def _write(self, name: str, value: Any) -> None:
        half = self._folder / f"{name}.half"
        half.write_text(json.dumps(value))
        half.replace(self._folder / name)


def sheet(folder: Path) -> mmap.mmap:
    """The sheet of a trial."""
    with (folder / SHEET).open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)
