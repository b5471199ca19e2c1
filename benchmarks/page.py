"""The page of a whole run: docs/performance, with a plot a metric and the lines it was made of. Written by the command alone."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import exercises, plot, table
from benchmarks.environments import ROOT
from benchmarks.exercises import BASE
from benchmarks.figures import PLAIN, Figure, Limit, figures, limits
from benchmarks.goals import GOALS, MADE_BY, STORES, Bound, Goal, find, judge, judged, kept, kind
from benchmarks.metrics import METRICS, OPTIONS
from benchmarks.run import failed

FOLDER = ROOT / "docs" / "performance"
LINES, NOTES = "bench.jsonl", "notes.md"  # notes are written by hand, and left as they are
BUSY = 2  # processes that want a core, for each core: one producer or worker and one server are our own
METHOD = Path(__file__).with_name("method.md")
PATHS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]*")  # of this machine: nobody else has them
GROWTH = (
    "Growth, at most 1.5x with ten million finished and a million scheduled jobs, is measured by itself, because filling a store "
    "takes longer than all of this: [what a full store costs](../operate/size.md)."
)
Lines = Sequence[Mapping[str, Any]]


def write(lines: Lines, folder: Path = FOLDER) -> None:
    """Write the page, the plots and the lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    found, raw = figures(lines), limits(lines)
    for metric in _there(found):
        panels = list(_panels(metric, found, raw))
        (folder / f"{metric}.svg").write_text(_named(plot.drawn(METRICS[metric], panels), lines))
    (folder / LINES).write_text("".join(PATHS.sub("…", json.dumps(line)) + "\n" for line in lines))
    (folder / "index.md").write_text(text(lines, notes=(folder / NOTES).exists()))


def text(lines: Lines, *, notes: bool = False) -> str:
    """The page."""
    return _named(_text(lines, notes=notes), lines)


def _named(text: str, lines: Lines) -> str:
    """The text with the server by its name."""
    valkey = any("on Valkey" in line.get("plan", "") for line in lines)
    return text.replace(STORES["redis"], STORES["redis"].replace("Redis", "Valkey")) if valkey else text


def _text(lines: Lines, *, notes: bool) -> str:
    found, raw = figures(lines), limits(lines)
    sides = {(side["name"], side["store"]): side for line in lines if (side := line.get("side"))}
    return (
        "\n\n".join(
            (
                "# Performance",
                "Every speed is a ratio within one run. Absolute figures depend on the machine and on what else it does."
                + (f" How to read them: see the [notes]({NOTES})." if notes else ""),
                "\n".join(_run(lines)),
                "## Goals",
                _table(table.HEAD, table.goal_rows(found)),
                GROWTH,
                "\n".join(_doubts(lines, found)),
                *(_section(metric, found, raw, sides, _rates(lines)) for metric in _there(found)),
                "## What each side promises",
                _table(
                    ("store", "side", "version", "acknowledged", "result", "durability", "how"),
                    list(_promises(sides, _versions(lines))),
                ),
                "## What was not measured",
                "\n".join(_faults(lines)),
                METHOD.read_text().strip(),
            )
        )
        + "\n"
    )


def _run(lines: Lines) -> Iterator[str]:
    begun = [line for line in lines if "begun" in line]
    for line in begun:
        moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime(line["begun"]))
        yield (
            f"- {'begun' if line is begun[0] else 'gone on'} {moment} UTC at commit `{line['commit']}`, "
            f"load average {line['load']:.1f}"
        )
    for line in begun[:1]:
        parts = ("processor", "memory", "system", "files")
        yield f"- {line['cores']} cores, {', '.join(str(line[name]) for name in parts if name in line)}"
    plans = dict.fromkeys(line["plan"] for line in lines if "plan" in line)
    rounds = max((line["round"] for line in lines if "round" in line), default=0)
    yield f"- plan: {'; '.join(plans)} a stretch, rounds: {rounds}"
    pythons = {line["metrics"]["python"] for line in lines if "python" in line.get("metrics", {})}
    yield f"- interpreters: {'; '.join(sorted(pythons))}"
    builds = dict.fromkeys(line["python"] for line in begun if "python" in line)
    yield from (f"- Python of all sides: {PATHS.sub('…', build)}" for build in builds)
    stores = dict.fromkeys(line["what"] for line in lines if "what" in line)
    yield from (f"- {PATHS.sub('…', what)}" for what in stores)
    loads = [line["load"] for line in lines if "metrics" in line and "load" in line]
    if loads and begun and median(loads) > BUSY * begun[0]["cores"]:
        yield "\n**The machine was busy: more load than it can carry. Neither met nor missed proves anything.**"


def _doubts(lines: Lines, found: Sequence[Figure]) -> Iterator[str]:
    """Goals that could not be judged, with the reason, and stretches that were shorter than wanted."""
    faults = {(line["side"]["name"], line["side"]["store"], line["exercise"]): line["error"] for line in failed(lines)}
    missing: list[tuple[Goal | Bound, tuple[str, ...]]]
    missing = [(goal, goal.peers) for goal in GOALS if judge(goal, found) is None]
    missing += [(bound, ()) for bound in table.ALONE if kept(bound, found) is None]
    absent = 0
    for goal, peers in missing:
        sides = [("packhorse", goal.store), *((peer, kind(goal.store)) for peer in peers)]
        made = MADE_BY.get(goal.metric, (goal.metric, BASE.name))
        why = [
            f"{side[0]}: {PATHS.sub('…', faults[*side, name])}"
            for side in sides
            for name in made
            if (*side, name) in faults
        ]
        if why:
            yield f"- not judged: {METRICS[goal.metric].title} on {STORES[goal.store]}: {'; '.join(why)}"
        absent += not why
    if absent:
        yield f"- not judged because the sides or exercises were not asked for: {absent} of the goals"
    wanted = max((line["size"]["seconds"] for line in lines if line.get("round") and "size" in line), default=0.0)
    for figure in found:
        short = min(figure.seconds.values(), default=wanted)
        if short < wanted and figure.metric != "option" and judged(figure.metric, figure.side, figure.store):
            title = METRICS[figure.metric].title
            yield f"- shorter than wanted: {title}, {figure.side} on {STORES[figure.store]}, {short:.1f} s in one round"


def _rates(lines: Lines) -> dict[tuple[str, str], float]:
    """The rate of each side at half of its maximum."""
    reported: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        if line.get("round") and "rate" in line.get("metrics", {}):
            reported.setdefault((line["side"]["name"], line["side"]["store"]), []).append(line["metrics"]["rate"])
    return {side: median(rates) for side, rates in reported.items()}


def _versions(lines: Lines) -> Mapping[str, str]:
    return next((line["versions"] for line in reversed(lines) if "versions" in line), {})


def _section(
    metric: str,
    found: Sequence[Figure],
    raw: Sequence[Limit],
    sides: Mapping[Any, Mapping[str, Any]],
    rates: Mapping[tuple[str, str], float],
) -> str:
    about = METRICS[metric]
    against = "of plain" if metric in OPTIONS else "Packhorse is ahead"
    head = ("store", "side", about.unit, against, "rounds", "seconds", "CPU µs/job", "acknowledged, result, durability")
    picture = f"![{about.title}]({metric}.svg)"
    return (
        f"## {about.title.capitalize()}\n\n{picture}\n\n{_table(head, list(_rows(metric, found, raw, sides, rates)))}"
    )


def _rows(
    metric: str,
    found: Sequence[Figure],
    raw: Sequence[Limit],
    sides: Mapping[Any, Mapping[str, Any]],
    rates: Mapping[tuple[str, str], float],
) -> Iterator[tuple[str, ...]]:
    about = METRICS[metric]
    for store, here in _by_store(metric, found):
        for figure in here:
            rounds = " ".join(about.shown(figure.values[number]) for number in sorted(figure.values))
            cpu = f"{median(figure.cpu.values()) * 1e6:,.0f}" if figure.cpu else ""
            side = sides[figure.side.partition(":")[0], store]
            promise = ", ".join((side["ack"], side["result"], side["durability"]))
            name = (
                f"{figure.side} at {rates.get((figure.side, store), 0):,.0f}/s"
                if metric.startswith("half-")
                else figure.side
            )
            lasted = f"{min(figure.seconds.values()):.1f}" if figure.seconds else ""
            value, ahead = about.shown(figure.middle), _ahead(figure, found)
            yield STORES[store], name, value, ahead, rounds, lasted, cpu, promise
        for limit in raw:
            if (limit.store, limit.metric) == (store, metric):
                rounds = " ".join(about.shown(limit.values[number]) for number in sorted(limit.values))
                ours = find("packhorse", store, here)
                part = f"{about.ratio(ours.middle, limit.middle):.2f}x" if ours else ""
                yield (
                    STORES[store],
                    f"*limit: {limit.what}*",
                    about.shown(limit.middle),
                    part,
                    rounds,
                    "",
                    "",
                    "no job system",
                )


def _ahead(figure: Figure, found: Sequence[Figure]) -> str:
    """How far Packhorse is ahead of a side; with an option, what is left of the speed without."""
    about = METRICS[figure.metric]
    there = [one for one in found if one.metric == figure.metric]
    name = figure.side.partition(":")[0]
    if figure.metric in OPTIONS:
        plain = find(f"{name}: {PLAIN}", figure.store, there)
        return f"{about.ratio(figure.middle, plain.middle):.2f}x" if plain else ""
    ours = find("packhorse", figure.store, there)
    return "" if ours is None or name == "packhorse" else f"{about.ratio(ours.middle, figure.middle):.2f}x"


def _panels(metric: str, found: Sequence[Figure], raw: Sequence[Limit]) -> Iterator[plot.Panel]:
    for store, here in _by_store(metric, found):
        bars = [
            _bar(figure.side, figure, "ours" if figure.side.partition(":")[0] == "packhorse" else "peer")
            for figure in here
        ]
        bars += [_bar("limit", limit, "limit") for limit in raw if (limit.store, limit.metric) == (store, metric)]
        yield plot.Panel(STORES[store], bars)


def _bar(label: str, measured: Figure | Limit, kind: str) -> plot.Bar:
    values = measured.values.values()
    return plot.Bar(label, measured.middle, min(values), max(values), kind)


def _by_store(metric: str, found: Sequence[Figure]) -> Iterator[tuple[str, list[Figure]]]:
    """The sides of each store, the best first."""
    for store in STORES:
        here = [figure for figure in found if (figure.metric, figure.store) == (metric, store)]
        if here:
            yield store, sorted(here, key=lambda one: one.middle, reverse=not METRICS[metric].less)


def _there(found: Sequence[Figure]) -> list[str]:
    measured = {figure.metric for figure in found}
    return [metric for metric in METRICS if metric in measured]


def _promises(sides: Mapping[Any, Mapping[str, Any]], versions: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for side in sides.values():
        if side["name"] != "limit":
            version = versions.get(side["pins"] or side["script"], "this commit" if side["name"] == "packhorse" else "")
            reported = (side[name] for name in ("ack", "result", "durability", "how"))
            yield STORES[side["store"]], side["name"], version, *reported


def _faults(lines: Lines) -> Iterator[str]:
    reported = [line for block in table.faults(lines) for line in block.splitlines()[1:]]
    yield from (f"- {PATHS.sub('…', line.strip())}" for line in reported)
    tried = {line.get("exercise") for line in lines}
    if left := [one.name for one in (*exercises.MORE, *exercises.OPTIONS) if one.name not in tried]:
        yield f"- not part of this run: the exercises {', '.join(left)}"
    if not reported and not left:
        yield "All that was asked for was measured."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
