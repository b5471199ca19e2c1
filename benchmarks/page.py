"""The page of a whole run: docs/performance, with a plot a metric and the lines it was made of. Written by the command alone."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import plot, table
from benchmarks.environments import ROOT
from benchmarks.figures import PLAIN, Figure, Limit, figures, limits
from benchmarks.goals import STORES, find
from benchmarks.metrics import METRICS, OPTIONS

FOLDER = ROOT / "docs" / "performance"
LINES = "bench.jsonl"
BUSY = 2  # processes that want a core, for each core: one producer or worker and one server are our own
METHOD = Path(__file__).with_name("method.md")
PATHS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]*")  # of this machine: nobody else has them
Lines = Sequence[Mapping[str, Any]]


def write(lines: Lines, folder: Path = FOLDER) -> None:
    """Write the page, the plots and the lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    found, raw = figures(lines), limits(lines)
    for metric in _there(found):
        panels = list(_panels(metric, found, raw))
        (folder / f"{metric}.svg").write_text(plot.drawn(METRICS[metric], panels))
    (folder / LINES).write_text("".join(PATHS.sub("…", json.dumps(line)) + "\n" for line in lines))
    (folder / "index.md").write_text(text(lines))


def text(lines: Lines) -> str:
    """The page."""
    found, raw = figures(lines), limits(lines)
    sides = {(side["name"], side["store"]): side for line in lines if (side := line.get("side"))}
    return (
        "\n\n".join(
            (
                "# Performance",
                "Every speed is a ratio within one run. Absolute figures depend on the machine and on what else it does.",
                "\n".join(_run(lines)),
                "## Goals",
                _table(table.HEAD, table.goal_rows(found)),
                *(_section(metric, found, raw, sides) for metric in _there(found)),
                "## What each side promises",
                _table(("store", "side", "acknowledged", "result", "durability", "how"), list(_promises(sides))),
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
            f"{line['cores']} cores, {line['system']}, load average {line['load']:.1f}"
        )
    plans = dict.fromkeys(line["plan"] for line in lines if "plan" in line)
    rounds = max((line["round"] for line in lines if "round" in line), default=0)
    yield f"- plan: {'; '.join(plans)} a stretch, rounds: {rounds}"
    pythons = sorted({line["metrics"]["python"] for line in lines if "python" in line.get("metrics", {})})
    yield f"- interpreters: {'; '.join(pythons)}"
    yield from (f"- {what}" for what in dict.fromkeys(line["what"] for line in lines if "what" in line))
    loads = [line["load"] for line in lines if "metrics" in line and "load" in line]
    if loads and begun and median(loads) > BUSY * begun[0]["cores"]:
        yield "\n**The machine was busy: more load than it can carry. Neither met nor missed proves anything.**"


def _section(metric: str, found: Sequence[Figure], raw: Sequence[Limit], sides: Mapping[Any, Mapping[str, Any]]) -> str:
    about = METRICS[metric]
    against = "of plain" if metric in OPTIONS else "Packhorse is ahead"
    head = ("store", "side", about.unit, against, "rounds", "CPU µs/job", "acknowledged, result, durability")
    picture = f"![{about.title}]({metric}.svg)"
    return f"## {about.title.capitalize()}\n\n{picture}\n\n{_table(head, list(_rows(metric, found, raw, sides)))}"


def _rows(
    metric: str, found: Sequence[Figure], raw: Sequence[Limit], sides: Mapping[Any, Mapping[str, Any]]
) -> Iterator[tuple[str, ...]]:
    about = METRICS[metric]
    for store, here in _by_store(metric, found):
        for figure in here:
            rounds = " ".join(about.shown(figure.values[number]) for number in sorted(figure.values))
            cpu = f"{median(figure.cpu.values()) * 1e6:,.0f}" if figure.cpu else ""
            side = sides[figure.side.partition(":")[0], store]
            promise = ", ".join((side["ack"], side["result"], side["durability"]))
            yield STORES[store], figure.side, about.shown(figure.middle), _ahead(figure, found), rounds, cpu, promise
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
        bars = [_bar(figure.side, figure, "ours" if figure.side == "packhorse" else "peer") for figure in here]
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


def _promises(sides: Mapping[Any, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for side in sides.values():
        if side["name"] != "limit":
            yield STORES[side["store"]], *(side[name] for name in ("name", "ack", "result", "durability", "how"))


def _faults(lines: Lines) -> Iterator[str]:
    told = [line for block in table.faults(lines) for line in block.splitlines()[1:]]
    yield from (f"- {PATHS.sub('…', line.strip())}" for line in told)
    if not told:
        yield "All that was asked for was measured."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
