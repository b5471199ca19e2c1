"""What lines of trials say, as figures: the metrics of each side, and the limits of each store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.exercises import ALONE, BASE, OPTIONS, QUICK
from benchmarks.metrics import METRICS

PLAIN = "plain"  # a side without options, beside the same with one
WHOLE = (BASE.name, QUICK.name)
LABELS = {ALONE.name: PLAIN, **{option.name: option.name for option in OPTIONS}}


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one side: a value a round, and processor seconds a job and the length of the stretch where they are known."""

    side: str
    store: str
    metric: str
    values: Mapping[int, float]
    cpu: Mapping[int, float] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """The median of the rounds."""
        return median(self.values.values())


@dataclass(frozen=True, slots=True)
class Limit:
    """What a store does without any job system, where a metric could be without one."""

    store: str
    metric: str
    what: str
    values: Mapping[int, float]

    @property
    def middle(self) -> float:
        """The median of the rounds."""
        return median(self.values.values())


def figures(lines: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """What the lines say, a figure for each metric of each side; round 0 does not count."""
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    spent: dict[tuple[str, str, str], dict[int, float]] = {}
    lasted: dict[tuple[str, str, str], dict[int, float]] = {}
    for line in lines:
        if "metrics" not in line or not line["round"]:
            continue
        for metric, reported in line["metrics"].items():
            if about := _about(line, metric):
                values.setdefault(about, {})[line["round"]] = reported["value"]
                if reported.get("cpu") is not None:
                    spent.setdefault(about, {})[line["round"]] = reported["cpu"]
                if "seconds" in reported:
                    lasted.setdefault(about, {})[line["round"]] = reported["seconds"]
    return [
        *(Figure(*about, rounds, spent.get(about, {}), lasted.get(about, {})) for about, rounds in values.items()),
        *_gains(values),
    ]


def _about(line: Mapping[str, Any], metric: str) -> tuple[str, str, str] | None:
    """Side, store and metric of a figure: what a drained backlog tells is called after what was special about it."""
    exercise, side, store = line["exercise"], line["side"]["name"], line["side"]["store"]
    if exercise in LABELS:
        option = {"process": "option", "bulk": "option-bulk"}[metric]
        return f"{side}: {LABELS[exercise]}", store, option
    if metric == "process" and exercise not in WHOLE:
        return side, store, exercise
    if metric == "bulk" and exercise not in ("bulk", QUICK.name):  # the backlog of another trial: too short to tell
        return None
    return (side, store, metric) if metric in METRICS else None


def _gains(values: Mapping[tuple[str, str, str], Mapping[int, float]]) -> list[Figure]:
    """What a second worker brings, round by round."""
    gains = []
    for (side, store, metric), rounds in values.items():
        single = values.get((f"{side}: {PLAIN}", store, "option")) or values.get((side, store, "process"), {})
        if metric == "two" and (both := rounds.keys() & single.keys()):
            gains.append(Figure(side, store, "gain", {number: rounds[number] / single[number] for number in both}))
    return gains


def limits(lines: Sequence[Mapping[str, Any]]) -> list[Limit]:
    """What the stores did without a job system."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for line in lines:
        for metric, reported in line.get("metrics", {}).get("limits", {}).items():
            found.setdefault((line["side"]["store"], metric, reported["what"]), {})[line["round"]] = reported["value"]
    return [Limit(*about, rounds) for about, rounds in found.items()]
