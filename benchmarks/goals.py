"""The goals as values. A goal is a ratio within one run; above 1 Packhorse is ahead, for rates and latencies alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Figure
from benchmarks.metrics import METRICS

STORES = {
    "sqlite": "SQLite FULL",
    "sqlite-normal": "SQLite NORMAL",
    "redis": "Redis, AOF everysec",
    "postgres": "PostgreSQL, synchronous_commit on",
}
EACH = ("sqlite", "redis", "postgres")
ANY = ("any",)


@dataclass(frozen=True, slots=True)
class Goal:
    """Packhorse against the best of these peers on one store; ``ANY`` means all that were measured there."""

    metric: str
    store: str
    wanted: float
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """What Packhorse has to keep by itself, whatever others do: at most, or at least for what is better when it is more.

    ``beside`` says what the bound was made of.
    """

    metric: str
    store: str
    wanted: float
    beside: str = "itself"


GOALS = (
    Goal("process", "sqlite", 12, ("huey",)),
    Goal("process", "sqlite-normal", 3, ("huey-no-fsync",)),
    Goal("process", "redis", 15, ("dramatiq",)),
    Goal("process", "redis", 3, ("bullmq-node",)),
    Goal("process", "postgres", 2, ("pgqueuer",)),
    Goal("process", "postgres", 50, ("procrastinate",)),
    Goal("thread", "redis", 5, ("dramatiq",)),
    Goal("one", "sqlite", 0.95, ("huey",)),  # the others there are less durable
    Goal("one", "redis", 0.95, ANY),
    Goal("one", "postgres", 0.95, ANY),
    Goal("together", "sqlite", 5, ("huey",)),  # its calls block, so they are a loop; nobody there has more
    Goal("together", "redis", 5, ("saq", "bullmq-node", "bullmq-python")),
    Goal("together", "postgres", 5, ANY),
    Goal("bulk", "sqlite", 5, ("huey-no-fsync",)),
    Goal("bulk", "redis", 4, ("bullmq-node",)),
    Goal("bulk", "postgres", 2, ("pgqueuer",)),
    *(Goal(metric, store, 1, ANY) for metric in ("p50", "p99") for store in EACH),
)
BOUNDS = (
    *(Bound("gain", store, 1.3) for store in ("redis", "postgres")),
    *(Bound("idle", store, 0.01) for store in EACH),
    *(Bound("rss", store, 60e6) for store in EACH),
    Bound("queued", "redis", 266),
    Bound("finished", "redis", 400),
)
# What a prototype without an engine did on another day on a machine of the same kind: absolute figures, so only a hint.
PROTOTYPE = "0.7 of a prototype, another day"
CEILINGS = tuple(
    Bound("process", store, 0.7 * rate, PROTOTYPE)
    for store, rate in (("sqlite", 58_000), ("sqlite-normal", 77_000), ("redis", 77_000), ("postgres", 27_000))
)
MADE_BY = {"gain": ("alone", "two"), "queued": ("bytes",), "finished": ("bytes",)}  # else by the exercise of that name


def judged(exercise: str, side: str, store: str) -> bool:
    """Whether a goal is judged by what this side does in this exercise."""
    if side == "packhorse":
        return any(
            goal.store == store and exercise in MADE_BY.get(goal.metric, (goal.metric,)) for goal in (*GOALS, *BOUNDS)
        )
    peers = [goal.peers for goal in GOALS if kind(goal.store) == store and goal.metric == exercise]
    return any(side in names or names == ANY for names in peers)


def kind(store: str) -> str:
    """The name that peers stand under: they have no setting between synced and not synced."""
    return store.partition("-")[0]


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
    there = [figure for figure in figures if figure.metric == goal.metric]
    ours = find("packhorse", goal.store, there)
    peer = best(goal, {one.side: one for one in there if one.store == kind(goal.store) and one.side != "packhorse"})
    if ours is None or peer is None:
        return None
    rounds = sorted(ours.values.keys() & peer.values.keys())
    if not rounds:
        return None
    mine, other = ([side.values[number] for number in rounds] for side in (ours, peer))
    metric = METRICS[goal.metric]
    each = [metric.ratio(one, two) for one, two in zip(mine, other, strict=True)]
    whole = metric.ratio(median(mine), median(other))
    return Verdict(goal, peer.side, len(rounds), whole, min(each), max(each), _less(ours.cpu, peer.cpu))


def kept(bound: Bound, figures: Sequence[Figure]) -> tuple[Figure, bool] | None:
    """What was measured, and whether the bound holds; None if nothing was."""
    ours = find("packhorse", bound.store, [figure for figure in figures if figure.metric == bound.metric])
    if ours is None:
        return None
    holds = ours.middle <= bound.wanted if METRICS[bound.metric].less else ours.middle >= bound.wanted
    return ours, holds


def find(side: str, store: str, figures: Sequence[Figure]) -> Figure | None:
    """The figure of a side."""
    return next((figure for figure in figures if (figure.side, figure.store) == (side, store)), None)


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
    choose = min if METRICS[goal.metric].less else max
    return choose(asked, key=lambda figure: figure.middle)
