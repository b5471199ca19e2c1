"""What a side is put through, and how many jobs that takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from benchmarks.sides.tally import WARMING

PACE = 50.0
FEWEST, MOST = 200, 2_000_000


class Kind(StrEnum):
    """The course of a trial."""

    WHOLE = "whole"  # one by one, in bulk, work it off, steady pace
    DRAIN = "drain"  # in bulk, work it off
    FILL = "fill"  # enqueue only
    PACE = "pace"  # steady pace
    IDLE = "idle"  # an idle worker is watched
    BYTES = "bytes"  # the store is weighed
    LIMITS = "limits"  # no job system at all


@dataclass(frozen=True, slots=True)
class Exercise:
    """A course with what jobs do, what is said about them, and how many workers there are. The name is that of its metric."""

    name: str
    kind: Kind
    work: str = "noop"
    option: str = ""
    workers: int = 1
    together: int = 0
    chunk: int | None = None

    @property
    def shared(self) -> bool:
        """Whether several processes run the jobs."""
        return self.workers > 1 or self.work == "cpu"


BASE = Exercise("base", Kind.WHOLE)
LIMITS = Exercise("limits", Kind.LIMITS)
ALONE = Exercise("alone", Kind.DRAIN)  # what two workers and options are held against: made just before them
MORE = (
    Exercise("thread", Kind.DRAIN, work="thread"),
    Exercise("io", Kind.DRAIN, work="io"),
    Exercise("cpu", Kind.DRAIN, work="cpu"),
    Exercise("together", Kind.FILL, together=1_000),
    Exercise("half", Kind.PACE),
    Exercise("idle", Kind.IDLE),
    Exercise("bytes", Kind.BYTES, option="kept"),
    ALONE,
    Exercise("two", Kind.DRAIN, workers=2),
)
OPTIONS = (
    Exercise("lanes", Kind.DRAIN, option="lanes"),
    Exercise("unique", Kind.DRAIN, option="unique"),
    Exercise("priorities", Kind.DRAIN, option="priorities"),
    Exercise("delayed", Kind.DRAIN, option="delayed"),
    Exercise("transaction", Kind.DRAIN, option="transaction"),
    Exercise("children", Kind.DRAIN, option="children", chunk=400),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs wait for the worker, how many of them are enqueued one by one, how many follow at which pace.

    ``seconds`` is how long what has no number of jobs goes on.
    """

    jobs: int
    one: int = 0
    paced: int = 0
    rate: float = PACE
    seconds: float = 1.0


def small(exercise: Exercise, jobs: int) -> Size:
    """A first trial, which shows that a side works, and how fast."""
    match exercise.kind:
        case Kind.WHOLE:
            one = max(FEWEST // 2, jobs // 20)
            return Size(max(jobs, 2 * one), one, paced=10)
        case Kind.PACE | Kind.IDLE:
            return Size(FEWEST, paced=10)
        case Kind.BYTES:
            return Size(max(2_000, min(jobs, 20_000)))
        case _:
            return Size(max(FEWEST, min(jobs, 500 if exercise.work == "cpu" else 8_000)))


def sized(exercise: Exercise, jobs: int, seconds: float, found: Mapping[str, Any]) -> Size:
    """A trial that takes about so many seconds, by what earlier ones of this side found, metric by metric."""
    match exercise.kind:
        case Kind.WHOLE:
            one = _within(found["one"] * seconds)
            backlog = _within(found["process"] * seconds * WARMING / (WARMING - 1))
            return Size(max(backlog, one * 11 // 10 + FEWEST), one, paced=max(10, int(PACE * seconds)), seconds=seconds)
        case Kind.PACE:
            rate = max(PACE, min(found["process"], found["one"]) / 2)
            return Size(FEWEST, paced=max(10, int(rate * seconds)), rate=rate, seconds=seconds)
        case Kind.IDLE:
            return Size(FEWEST, paced=10, seconds=seconds)
        case Kind.BYTES:
            return Size(small(exercise, jobs).jobs, seconds=seconds)
        case Kind.LIMITS:
            return Size(0, seconds=seconds)
        case _:
            rate = found["together" if exercise.kind is Kind.FILL else "process"]
            return Size(_within(rate * seconds * WARMING / (WARMING - 1)), seconds=seconds)


def _within(jobs: float) -> int:
    return int(min(MOST, max(FEWEST, jobs)))
