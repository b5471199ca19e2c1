"""What a trial asks of a side. It travels as a variable of the environment, so that workers that start themselves anew have it."""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "PACKHORSE_BENCH_ORDER"
LANES, PRIORITIES, DELAY, CHILDREN = 1_000, 10, 0.5, 10  # what options say about jobs
PADS = {"64kib": "x" * (64 << 10), "1mib": "x" * ((1 << 20) - 1000)}  # what large payloads carry beside the usual


@dataclass(frozen=True, slots=True)
class Order:
    """One trial: jobs are numbered from 0, first those that warm up, then those enqueued one by one, then the bulk.

    ``work`` is what a job does: nothing (``noop``), the same as a sync function in a thread (``thread``), wait for 5 ms
    (``io``), or compute for about a millisecond in a process (``cpu``). ``option`` is what is set for each job: lanes,
    unique and the like. ``together`` calls enqueue one job each at once, instead of the bulk. ``shared`` jobs are run by
    several processes. ``prepared`` stores have their tables.
    """

    url: str
    folder: str
    warm: int
    one: int
    bulk: int
    chunk: int = 500
    concurrency: int = 100
    paced: int = 0
    rate: float = 50.0
    server: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    work: str = "noop"
    option: str = ""
    together: int = 0
    shared: bool = False
    prepared: bool = False
    seconds: float = 1.0

    @property
    def backlog(self) -> int:
        """How many jobs wait for the worker when it starts."""
        return self.warm + self.one + self.bulk

    def environment(self) -> dict[str, str]:
        """The order as a variable of a process."""
        return {VARIABLE: json.dumps(asdict(self))}


def given() -> Order:
    """The order of this process."""
    return Order(**json.loads(os.environ[VARIABLE]))
