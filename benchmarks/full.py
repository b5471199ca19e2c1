"""Packhorse beside all of its peers, in about an hour. Goes on where it was interrupted, and writes docs/performance.

Every side: process with one worker, enqueue, latency. Packhorse and the best peers of each store: all the rest.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import contest, environments, exercises, page, table
from benchmarks.contest import ALL, Contestant
from benchmarks.exercises import BASE, Exercise, sized, small
from benchmarks.figures import figures
from benchmarks.goals import ANY, GOALS
from benchmarks.quick import say
from benchmarks.run import Lines, Session, Turn, failed

BEST = 2
Pairs = list[tuple[Exercise, Contestant]]
Found = dict[tuple[str, str, str], dict[str, float]]


def main() -> int:
    """Measure, print, write the page, and answer 1 if a side could not be measured."""
    options = arguments()
    environments.HOME.mkdir(exist_ok=True)
    out = options.out or environments.HOME / "bench.jsonl"
    if options.anew:
        out.unlink(missing_ok=True)
    python = environments.choose(options.python)
    sides = chosen(options.stores, options.sides)
    servers = {"redis": "valkey"} if options.valkey else {}
    with Session(plan(options), python, out, say, servers=servers) as session:
        if others := {line["plan"] for line in session.lines if "plan" in line} - {plan(options)}:
            sys.exit(
                f"{out} holds another plan ({'; '.join(others)}): say --anew to forget it, or --out for another file"
            )
        measure(session, sides, options.rounds, options.seconds, options.exercises)
    if not session.begun:
        say(f"{out} had all of it; --anew begins another run")
    print(table.report(session.lines, figures(session.lines)))
    if options.docs:
        page.write(session.lines, options.docs_folder)
    return bool(failed(session.lines))


def plan(options: argparse.Namespace) -> str:
    """What has to be the same for an interrupted run to go on."""
    return f"full, {options.seconds:g} s" + (", on Valkey" if options.valkey else "")


def arguments() -> argparse.Namespace:
    """The options of the command."""
    names = [exercise.name for exercise in (*exercises.MORE, *exercises.OPTIONS)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long a stretch is (default: 5)")
    parser.add_argument("--rounds", type=int, default=3, help="trials of each side; the medians count")
    parser.add_argument("--stores", nargs="+", choices=sorted({side.store for side in ALL}), help="only on these")
    parser.add_argument("--sides", nargs="+", choices=sorted({side.name for side in ALL}), help="only these")
    parser.add_argument("--exercises", nargs="*", choices=names, default=names, help="only these after the first")
    parser.add_argument(
        "--out", type=Path, help="JSON lines, which are also what it goes on from (default: .bench/bench.jsonl)"
    )
    parser.add_argument(
        "--valkey", action="store_true", help="a server of Valkey instead of Redis; streaq needs Redis 7 or that"
    )
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("--no-docs", dest="docs", action="store_false", help="leave docs/performance as it is")
    parser.add_argument("--docs-folder", type=Path, default=page.FOLDER, help=argparse.SUPPRESS)
    parser.add_argument("--python", help="interpreter for all sides (default: the fastest build of our version here)")
    return parser.parse_args()


def chosen(stores: Sequence[str] | None, names: Sequence[str] | None) -> tuple[Contestant, ...]:
    """The sides of these names on these stores."""
    return tuple(
        side for side in ALL if (stores is None or side.store in stores) and (names is None or side.name in names)
    )


def measure(session: Session, sides: Sequence[Contestant], rounds: int, seconds: float, names: Sequence[str]) -> None:
    """All sides first, with the limits of their stores; then the best of them in everything else."""
    found: Found = {}
    stores = {side.store for side in sides}
    limits = [side for side in contest.LIMITS if side.store in stores]
    _rounds(session, [(BASE, side) for side in sides], rounds, seconds, found, limits)
    more = [exercise for exercise in (*exercises.MORE, *exercises.OPTIONS) if exercise.name in names]
    _rounds(session, pairs(more, sides, session.lines), rounds, seconds, found)


def _rounds(
    session: Session, pairs: Pairs, rounds: int, seconds: float, found: Found, limits: Iterable[Contestant] = ()
) -> None:
    """A small trial of each, then rounds of large ones; who failed in the small one is left out."""
    able = []
    for exercise, side in pairs:
        known = found.get((side.name, side.store, BASE.name), {})
        metrics = session.take(Turn(side, exercise, 0, small(exercise, side.jobs)))
        if metrics is not None:
            found[side.name, side.store, exercise.name] = {**known, **_values(metrics)}
            able.append((exercise, side))
    for number in range(1, rounds + 1):
        for side in limits:
            session.take(Turn(side, exercises.LIMITS, number, exercises.Size(0, seconds=seconds / 3)))
        for exercise, side in able:
            size = sized(exercise, side.jobs, seconds, found[side.name, side.store, exercise.name])
            session.take(Turn(side, exercise, number, size))


def _values(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: told["value"] for name, told in metrics.items() if isinstance(told, dict) and "value" in told}


def pairs(more: Sequence[Exercise], sides: Sequence[Contestant], lines: Lines) -> Pairs:
    """Who does which exercise: Packhorse, the best peers of each store, and those that a goal names; if they have such a thing."""
    strong = best(sides, lines)
    named = {(goal.metric, peer) for goal in GOALS if goal.peers != ANY for peer in goal.peers}
    return [
        (exercise, side)
        for exercise in more
        for side in sides
        if exercise.name in side.does
        and (side.name == "packhorse" or side in strong or (exercise.name, side.name) in named)
    ]


def best(sides: Sequence[Contestant], lines: Lines) -> list[Contestant]:
    """The fastest peers of each store; of configurations of one that promise the same, the fastest."""
    speed = {(one.side, one.store): one.middle for one in figures(lines) if one.metric == "process"}
    peers = [side for side in sides if side.name != "packhorse" and (side.name, side.store) in speed]
    peers.sort(key=lambda side: -speed[side.name, side.store])
    picked: dict[str, dict[tuple[str, str], Contestant]] = {}
    for side in peers:
        there = picked.setdefault(side.store, {})
        if len(there) < BEST:
            there.setdefault((side.script, side.durability), side)
    return [side for there in picked.values() for side in there.values()]


if __name__ == "__main__":
    sys.exit(main())
