"""What was measured, as text: a table a metric, what each side promises, and how each goal stands."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.exercises import BASE, QUICK
from benchmarks.figures import Figure
from benchmarks.goals import ANY, BOUNDS, CEILINGS, GOALS, STORES, Bound, Goal, Verdict, judge, kept
from benchmarks.metrics import METRICS
from benchmarks.run import failed

Row = tuple[str, str, str, str, str, str, str, str]
ALONE = (*BOUNDS, *CEILINGS)
ENOUGH = 3  # fewer rounds prove nothing, and are reported


def columns(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Rows as aligned columns, the first row a heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kinds = [">" if place in right else "<" for place in range(len(widths))]
    lines = ("  ".join(f"{c:{k}{w}}" for c, k, w in zip(row, kinds, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)


def metric_table(metric: str, figures: Sequence[Figure]) -> str:
    """All sides in one metric, store by store."""
    about = METRICS[metric]
    rows = [("store", "side", about.unit, "rounds", "CPU µs/job")]
    for figure in sorted((one for one in figures if one.metric == metric), key=lambda one: one.store):
        rounds = " ".join(about.shown(figure.values[number]) for number in sorted(figure.values))
        cpu = f"{median(figure.cpu.values()) * 1e6:,.0f}" if figure.cpu else ""
        rows.append((figure.store, figure.side, about.shown(figure.middle), rounds, cpu))
    return f"{about.title}\n{columns(rows, right=(2, 4))}"


def promises(sides: Sequence[Mapping[str, Any]]) -> str:
    """What each side gives for its speed."""
    rows = [("store", "side", "jobs", "acknowledged", "result", "durability", "how")]
    names = ("store", "name", "jobs", "ack", "result", "durability", "how")
    rows += [tuple(f"{side[name]:,}" if name == "jobs" else side[name] for name in names) for side in sides]  # type: ignore[misc]
    return f"What each side promises\n{columns(rows, right=(2,))}"


HEAD = ("goal", "store", "wanted", "beside", "ratio", "rounds", "CPU", "")


def goal_rows(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS, bounds: Sequence[Bound] = ALONE) -> list[Row]:
    """Each goal with its ratio and the word met or missed, or that it was not measured."""
    return [*(_row(goal, judge(goal, figures)) for goal in goals), *(_bound(bound, figures) for bound in bounds)]


def goal_table(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS, bounds: Sequence[Bound] = ALONE) -> str:
    """The goals as text."""
    return f"Goals\n{columns([HEAD, *goal_rows(figures, goals, bounds)], right=(2, 4, 6))}"


def _row(goal: Goal, verdict: Verdict | None) -> Row:
    about = (METRICS[goal.metric].title, STORES[goal.store], f"{goal.wanted:g}x")
    if verdict is None:
        return *about, "any peer" if goal.peers == ANY else " ".join(goal.peers), "", "", "", "not measured"
    return (
        *about,
        verdict.peer,
        f"{verdict.ratio:.2f}x",
        f"{verdict.low:.2f}-{verdict.high:.2f}",
        "" if verdict.cpu is None else f"{verdict.cpu:.2f}x",
        _word(verdict.met, verdict.rounds),
    )


def _bound(bound: Bound, figures: Sequence[Figure]) -> Row:
    metric, found = METRICS[bound.metric], kept(bound, figures)
    wanted = f"{'at most' if metric.less else 'at least'} {metric.shown(bound.wanted)} {metric.unit}"
    about = (metric.title, STORES[bound.store], wanted, bound.beside)
    if found is None:
        return *about, "", "", "", "not measured"
    figure, holds = found
    low, high = (metric.shown(pick(figure.values.values())) for pick in (min, max))
    return *about, metric.shown(figure.middle), f"{low}-{high}", "", _word(holds, len(figure.values))


def _word(met: bool, rounds: int) -> str:
    return ("met" if met else "missed") + ("" if rounds >= ENOUGH else f" (rounds: {rounds})")


def report(lines: Sequence[Mapping[str, Any]], figures: Sequence[Figure]) -> str:
    """All there is to say about a run."""
    sides = list({str(line["side"]): line["side"] for line in lines if "side" in line}.values())
    there = {figure.metric for figure in figures}
    tables = [metric_table(metric, figures) for metric in METRICS if metric in there]
    goals = [goal for goal in GOALS if goal.metric in there]  # a quick run has nothing to say about the others
    bounds = [bound for bound in ALONE if bound.metric in there]
    return "\n\n".join([*tables, promises(sides), *faults(lines), goal_table(figures, goals, bounds)])


def faults(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What went wrong: trials that failed, and jobs that ran more than once."""
    reported = [f"  {_name(line)}: {line['error']}" for line in failed(lines)]
    reported += [f"  {_name(line)}: {twice} of its jobs ran twice" for line in lines if (twice := _twice(line))]
    return ["\n".join(("Went wrong", *reported))] if reported else []


def _name(line: Mapping[str, Any]) -> str:
    exercise = "" if line["exercise"] in (BASE.name, QUICK.name) else f", {line['exercise']}"
    return f"{line['side']['name']} on {line['side']['store']}{exercise}, round {line['round']}"


def _twice(line: Mapping[str, Any]) -> int:
    return int(line.get("metrics", {}).get("process", {}).get("twice", 0))
