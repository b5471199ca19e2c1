"""The goals as values. A goal is a ratio within one run; above 1 Packhorse is ahead, for rates and latencies alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

METRICS = {
    "process": "process, 1 worker",
    "one": "enqueue one by one",
    "bulk": "enqueue in bulk",
    "p50": "latency p50 at 50 jobs/s",
    "p99": "latency p99 at 50 jobs/s",
}
LATENCIES = frozenset({"p50", "p99"})
STORES = {
    "sqlite": "SQLite FULL",
    "sqlite-normal": "SQLite NORMAL",
    "redis": "Redis, AOF everysec",
    "postgres": "PostgreSQL, synchronous_commit on",
}
ANY = ("any",)


@dataclass(frozen=True, slots=True)
class Goal:
    """Packhorse against the best of these peers on one store; ``ANY`` means all that were measured there."""

    metric: str
    store: str
    wanted: float
    peers: tuple[str, ...]


GOALS = (
    Goal("process", "sqlite", 12, ("huey",)),
    Goal("process", "sqlite-normal", 3, ("huey-no-fsync",)),
    Goal("process", "redis", 15, ("dramatiq",)),
    Goal("process", "redis", 3, ("bullmq-node",)),
    Goal("process", "postgres", 2, ("pgqueuer",)),
    Goal("process", "postgres", 50, ("procrastinate",)),
    Goal("one", "sqlite", 0.95, ("huey",)),  # the others there are less durable
    Goal("one", "redis", 0.95, ANY),
    Goal("one", "postgres", 0.95, ANY),
    Goal("bulk", "sqlite", 5, ("huey-no-fsync",)),
    Goal("bulk", "redis", 4, ("bullmq-node",)),
    Goal("bulk", "postgres", 2, ("pgqueuer",)),
    *(Goal(metric, store, 1, ANY) for metric in ("p50", "p99") for store in ("sqlite", "redis", "postgres")),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one side: a value a round, and processor seconds a job where they are known."""

    side: str
    store: str
    metric: str
    values: Mapping[int, float]
    cpu: Mapping[int, float] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """The median of the rounds."""
        return median(self.values.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a goal stands after the rounds that both sides have; ``low`` and ``high`` are of single rounds."""

    goal: Goal
    peer: str
    rounds: int
    ratio: float
    low: float
    high: float
    cpu: float | None

    @property
    def met(self) -> bool:
        """Whether the ratio of the medians reaches what is wanted."""
        return self.ratio >= self.goal.wanted


def judge(goal: Goal, figures: Sequence[Figure]) -> Verdict | None:
    """How the goal stands; None if the two sides have no round in common."""
    known = {figure.side: figure for figure in figures if (figure.metric, figure.store) == (goal.metric, goal.store)}
    ours = known.pop("packhorse", None)
    peer = best(goal, known)
    if ours is None or peer is None:
        return None
    rounds = sorted(ours.values.keys() & peer.values.keys())
    if not rounds:
        return None
    mine, other = ([side.values[number] for number in rounds] for side in (ours, peer))
    each = [ratio(goal.metric, one, two) for one, two in zip(mine, other, strict=True)]
    whole = ratio(goal.metric, median(mine), median(other))
    return Verdict(goal, peer.side, len(rounds), whole, min(each), max(each), _less(ours.cpu, peer.cpu))


def _less(ours: Mapping[int, float], peer: Mapping[int, float]) -> float | None:
    """How much less processor time a job of ours takes."""
    rounds = ours.keys() & peer.keys()
    if not rounds:
        return None
    return median(peer[number] for number in rounds) / median(ours[number] for number in rounds)


def best(goal: Goal, known: Mapping[str, Figure]) -> Figure | None:
    """The peer to be held against."""
    asked = [figure for side, figure in known.items() if goal.peers == ANY or side in goal.peers]
    if not asked:
        return None
    choose = min if goal.metric in LATENCIES else max
    return choose(asked, key=lambda figure: figure.middle)


def ratio(metric: str, ours: float, peer: float) -> float:
    """How far ahead of the peer."""
    return peer / ours if metric in LATENCIES else ours / peer
