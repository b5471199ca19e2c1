"""What was measured, as text: a table a metric, what each side promises, and how each goal stands."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.goals import ANY, GOALS, LATENCIES, METRICS, STORES, Figure, Goal, Verdict, judge

ENOUGH = 3  # fewer rounds prove nothing, and are told


def columns(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Rows as aligned columns, the first row a heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kinds = [">" if place in right else "<" for place in range(len(widths))]
    lines = ("  ".join(f"{c:{k}{w}}" for c, k, w in zip(row, kinds, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)


def metric_table(metric: str, figures: Sequence[Figure]) -> str:
    """All sides in one metric, store by store."""
    unit = "ms" if metric in LATENCIES else "jobs/s"
    rows = [("store", "side", unit, "rounds", "CPU µs/job")]
    for figure in sorted((one for one in figures if one.metric == metric), key=lambda one: one.store):
        rounds = " ".join(shown(metric, figure.values[number]) for number in sorted(figure.values))
        cpu = f"{median(figure.cpu.values()) * 1e6:,.0f}" if figure.cpu else ""
        rows.append((figure.store, figure.side, shown(metric, figure.middle), rounds, cpu))
    return f"{METRICS[metric]}\n{columns(rows, right=(2, 4))}"


def shown(metric: str, value: float) -> str:
    """A value of a metric as people read it."""
    return f"{value * 1000:.2f}" if metric in LATENCIES else f"{value:,.0f}"


def promises(sides: Sequence[Mapping[str, Any]]) -> str:
    """What each side gives for its speed."""
    rows = [("store", "side", "jobs", "acknowledged", "result", "durability", "how")]
    names = ("store", "name", "jobs", "ack", "result", "durability", "how")
    rows += [tuple(f"{side[name]:,}" if name == "jobs" else side[name] for name in names) for side in sides]  # type: ignore[misc]
    return f"What each side promises\n{columns(rows, right=(2,))}"


def goal_table(figures: Sequence[Figure], goals: Sequence[Goal] = GOALS) -> str:
    """Each goal with its ratio and the word met or missed, or that it was not measured."""
    rows = [("goal", "store", "wanted", "beside", "ratio", "rounds", "CPU", "")]
    rows += [_row(goal, judge(goal, figures)) for goal in goals]
    return f"Goals\n{columns(rows, right=(2, 4, 6))}"


def _row(goal: Goal, verdict: Verdict | None) -> tuple[str, str, str, str, str, str, str, str]:
    about = (METRICS[goal.metric], STORES[goal.store], f"{goal.wanted:g}x")
    if verdict is None:
        return *about, "any peer" if goal.peers == ANY else goal.peers[0], "", "", "", "not measured"
    return (
        *about,
        verdict.peer,
        f"{verdict.ratio:.2f}x",
        f"{verdict.low:.2f}-{verdict.high:.2f}",
        "" if verdict.cpu is None else f"{verdict.cpu:.2f}x",
        ("met" if verdict.met else "missed") + ("" if verdict.rounds >= ENOUGH else f" (rounds: {verdict.rounds})"),
    )


def report(lines: Sequence[Mapping[str, Any]], figures: Sequence[Figure]) -> str:
    """All there is to say about a run."""
    sides = list({str(line["side"]): line["side"] for line in lines if "side" in line}.values())
    tables = [metric_table(metric, figures) for metric in METRICS]
    return "\n\n".join([*tables, promises(sides), *faults(lines), goal_table(figures)])


def faults(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What went wrong: trials that failed, and jobs that ran more than once."""
    told = [f"  {_name(line)}: {line['error']}" for line in lines if "error" in line]
    told += [f"  {_name(line)}: {twice} of its jobs ran twice" for line in lines if (twice := _twice(line))]
    return ["\n".join(("Went wrong", *told))] if told else []


def _name(line: Mapping[str, Any]) -> str:
    return f"{line['side']['name']} on {line['side']['store']}, round {line['round']}"


def _twice(line: Mapping[str, Any]) -> int:
    return int(line["metrics"]["process"].get("twice", 0)) if "metrics" in line else 0
