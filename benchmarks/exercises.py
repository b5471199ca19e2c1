"""What a side is put through, and how many jobs that takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from benchmarks.sides.tally import WARMING

PACE = 50.0
AIM = 1.2  # so much longer than wanted: what was found before may be slower than what comes
FEWEST, MOST, WARM = 200, 2_000_000, 10


class Kind(StrEnum):
    """The course of a trial."""

    WHOLE = "whole"  # one by one, in bulk, work it off, steady pace
    DRAIN = "drain"  # in bulk, work it off
    FILL = "fill"  # enqueue only: the metric is called like the exercise
    PACE = "pace"  # steady pace
    IDLE = "idle"  # an idle worker is watched
    BYTES = "bytes"  # the store is weighed
    LIMITS = "limits"  # no job system at all


@dataclass(frozen=True, slots=True)
class Exercise:
    """A course with what jobs do, the options of them, and how many workers there are. The name is that of its metric.

    ``speed`` is how fast it will be at most, beside the first exercise; 0 if only a small trial can tell. ``most`` is how
    many jobs there may be: large ones fill the store.
    """

    name: str
    kind: Kind
    work: str = "noop"
    option: str = ""
    workers: int = 1
    together: int = 0
    chunk: int | None = None
    speed: float = 0
    most: int = MOST

    @property
    def shared(self) -> bool:
        """Whether several processes run the jobs."""
        return self.workers > 1 or self.work == "cpu"


BASE = Exercise("base", Kind.WHOLE)  # process and latency
ONE = Exercise("one", Kind.FILL, speed=1)
QUICK = Exercise("quick", Kind.WHOLE)  # the same with a few jobs one by one first, for a glance at all of it
LIMITS = Exercise("limits", Kind.LIMITS)
ALONE = Exercise("alone", Kind.DRAIN, speed=1)  # what two workers and options are held against: made just before them
MORE = (
    Exercise("thread", Kind.DRAIN, work="thread"),
    Exercise("io", Kind.DRAIN, work="io"),
    Exercise("cpu", Kind.DRAIN, work="cpu"),
    Exercise("together", Kind.FILL, together=1_000),
    Exercise("bulk", Kind.FILL, speed=1),
    Exercise("half", Kind.PACE, speed=1),
    Exercise("idle", Kind.IDLE, speed=1),
    Exercise("bytes", Kind.BYTES, option="kept", speed=1),
    ALONE,
    Exercise("two", Kind.DRAIN, workers=2, speed=1.5),
)
OPTIONS = (
    Exercise("lanes", Kind.DRAIN, option="lanes"),
    Exercise("unique", Kind.DRAIN, option="unique"),
    Exercise("priorities", Kind.DRAIN, option="priorities"),
    Exercise("delayed", Kind.DRAIN, option="delayed"),
    Exercise("transaction", Kind.DRAIN, option="transaction"),
    Exercise("children", Kind.DRAIN, option="children", chunk=400),
    Exercise("64kib", Kind.DRAIN, option="64kib", chunk=100, most=4_000),
    Exercise("1mib", Kind.DRAIN, option="1mib", chunk=10, most=300),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs wait for the worker, how many of them are enqueued one by one, how many follow at which pace.

    ``seconds`` is how long what has no number of jobs goes on, ``takes`` about how long the longest part will take.
    """

    jobs: int
    one: int = 0
    paced: int = 0
    rate: float = PACE
    seconds: float = 1.0
    takes: float = 0.0


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
            return Size(max(FEWEST, min(jobs, 500 if exercise.work == "cpu" else 8_000, exercise.most)))


def sized(exercise: Exercise, jobs: int, seconds: float, found: Mapping[str, Any]) -> Size:
    """A trial that takes at least so many seconds, by what earlier ones of this side found, metric by metric."""
    match exercise.kind:
        case Kind.WHOLE:
            return drained(exercise, _long(found["process"], seconds), seconds, found)
        case Kind.FILL:
            jobs = _within(found[exercise.name] * seconds * AIM)
            if exercise.name == ONE.name:
                return Size(jobs * 11 // 10, one=jobs, seconds=seconds, takes=seconds * AIM)
            return Size(jobs + WARM, seconds=seconds, takes=seconds * AIM)
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
            return drained(exercise, _long(found["process"] * (exercise.speed or 1), seconds), seconds, found)


def drained(exercise: Exercise, jobs: int, seconds: float, found: Mapping[str, Any]) -> Size:
    """A trial with a backlog of so many jobs."""
    jobs = min(jobs, exercise.most)
    takes = max(jobs / found["process"], jobs / found.get("bulk", found["process"]))
    paced = max(10, int(PACE * seconds)) if exercise.kind is Kind.WHOLE else 0
    return Size(jobs, paced=paced, seconds=seconds, takes=takes)


def lasts(exercise: Exercise, seconds: float) -> float:
    """About how many seconds a whole trial takes, with processes that start and end."""
    match exercise.kind:
        case Kind.WHOLE:
            return 2 + seconds * 2.7
        case Kind.DRAIN:
            return 2 + seconds * 1.7
        case Kind.BYTES:
            return 5
        case Kind.FILL:
            return 1 + seconds * AIM
        case Kind.LIMITS:
            return 1 + seconds * 3
        case _:
            return 2 + seconds


def _long(rate: float, seconds: float) -> int:
    """A backlog of so many seconds without what warms up."""
    return _within(rate * seconds * AIM * WARMING / (WARMING - 1))


def _within(jobs: float) -> int:
    return int(min(MOST, max(FEWEST, jobs)))
