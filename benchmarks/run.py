"""Rounds of trials, all sides in turn, so that what else the machine does falls on all of them. Resumable."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import environments, places
from benchmarks.contest import Contestant
from benchmarks.goals import LATENCIES, METRICS, Figure
from benchmarks.trial import Failed, trial


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: the sides, how often, how many jobs one by one, how many at a steady pace."""

    name: str
    sides: tuple[Contestant, ...]
    rounds: int
    one: int
    paced: int


Lines = list[dict[str, Any]]


def run(plan: Plan, python: str, out: Path, say: Callable[[str], None]) -> Lines:
    """Measure what the file does not hold yet, a line a trial, and answer all lines."""
    lines = read(out)
    done = {key(line) for line in lines if "metrics" in line}
    with out.open("a") as file, ExitStack() as stack:

        def keep(line: dict[str, Any]) -> None:
            lines.append(line)
            file.write(json.dumps(line) + "\n")
            file.flush()

        inside, missing = _environments(plan.sides, python, say)
        opened = {store: stack.enter_context(places.opened(store)) for store in _stores(plan.sides, inside)}
        for store, place in opened.items():
            keep({"store": store, "what": place.what})
        for side in plan.sides:
            if side.script in missing:
                keep({**_about(plan, side, 0), "error": f"no environment: {missing[side.script]}"})
        for number in range(1, plan.rounds + 1):
            for side in plan.sides:
                if side.script in inside and key(_about(plan, side, number)) not in done:
                    say(f"round {number}: {side.name} on {side.store}")
                    keep(_tried(plan, side, number, opened[side.store], inside[side.script]))
    return lines


def _tried(plan: Plan, side: Contestant, number: int, place: places.Place, python: Path) -> dict[str, Any]:
    line = {**_about(plan, side, number), "at": round(time.time(), 1), "load": os.getloadavg()[0]}
    begun = time.monotonic()
    try:
        metrics = trial(side, place, python, one=plan.one, paced=plan.paced)
    except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {**line, "error": str(error)}
    return {**line, "seconds": time.monotonic() - begun, "metrics": metrics}


def _about(plan: Plan, side: Contestant, number: int) -> dict[str, Any]:
    return {"plan": plan.name, "round": number, "side": asdict(side)}


def _environments(
    sides: Iterable[Contestant], python: str, say: Callable[[str], None]
) -> tuple[dict[str, Path], dict[str, str]]:
    inside, missing = {}, {}
    for script in dict.fromkeys(side.script for side in sides):
        say(f"environment of {script}")
        try:
            inside[script] = environments.ready(script, python)
        except environments.NoEnvironment as error:
            missing[script] = str(error)
    return inside, missing


def _stores(sides: Iterable[Contestant], inside: Mapping[str, Path]) -> list[str]:
    return list(dict.fromkeys(side.store for side in sides if side.script in inside))


def read(out: Path) -> Lines:
    """The lines of an earlier run, a torn last one left out."""
    lines = []
    for text in out.read_text().splitlines() if out.exists() else ():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a trial the same as one of an earlier run: the plan, the side as configured, the round."""
    return line["plan"], line["round"], json.dumps(line["side"], sort_keys=True)


def figures(lines: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """What the lines say, a figure for each metric of each side."""
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    spent: dict[tuple[str, str, str], dict[int, float]] = {}
    for line in lines:
        if "metrics" not in line:
            continue
        side, metrics, number = line["side"], line["metrics"], line["round"]
        told = {**metrics, **{name: {"rate": metrics["latency"][name]} for name in LATENCIES}}
        for metric in METRICS:
            about = (side["name"], side["store"], metric)
            values.setdefault(about, {})[number] = told[metric]["rate"]
            if told[metric].get("cpu") is not None:
                spent.setdefault(about, {})[number] = told[metric]["cpu"]
    return [Figure(*about, rounds, spent.get(about, {})) for about, rounds in values.items()]
