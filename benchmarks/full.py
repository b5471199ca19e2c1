"""Packhorse beside all of its peers, in about an hour. Goes on where it was interrupted, and writes docs/performance.

Every side: process with one worker, enqueue, latency. Packhorse and the best peers of each store: all the rest.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from benchmarks import contest, environments, exercises, page, table
from benchmarks.contest import ALL, Contestant
from benchmarks.exercises import BASE, ONE, Exercise, Kind, Size, drained, lasts, sized, small
from benchmarks.figures import figures
from benchmarks.goals import ANY, GOALS, judged
from benchmarks.progress import Progress
from benchmarks.quick import say
from benchmarks.run import Lines, Session, Turn, ends_on_term, ours

BEST = 2
SECONDS, SMALL = 5.0, 2.5  # a stretch, and a small trial
Pairs = Sequence[tuple[Exercise, Contestant]]
Speeds = Mapping[tuple[str, str], float]


def main() -> int:
    """Measure, print, write the page; answer 1 if Packhorse could not be measured, or the measuring failed. A peer is only listed."""
    options = arguments()
    ends_on_term()
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
    return bool(ours(session.lines))


def plan(options: argparse.Namespace) -> str:
    """What has to be the same for an interrupted run to go on."""
    return f"full, {options.seconds:g} s" + (", on Valkey" if options.valkey else "")


def arguments() -> argparse.Namespace:
    """The options of the command."""
    names = [exercise.name for exercise in (*exercises.MORE, *exercises.OPTIONS)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long a stretch is at least (default: 5)")
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
    more = [exercise for exercise in (*exercises.MORE, *exercises.OPTIONS) if exercise.name in names]
    stores = {side.store for side in sides}
    limits = [(exercises.LIMITS, side) for side in contest.LIMITS if side.store in stores]
    first = [*((BASE, side) for side in sides), *((ONE, side) for side in sides), *limits]
    guess = pairs(more, sides, {(side.name, side.store): side.jobs for side in sides})  # about a second of work each
    course = Course(session, rounds, seconds)
    course.run(first, then=guess)
    course.run(pairs(more, sides, speeds(session.lines)))


class Course:
    """Rounds of trials in turn; what each found tells how large the next one of the same side is."""

    def __init__(self, session: Session, rounds: int, seconds: float) -> None:
        self._session, self._rounds, self._seconds = session, rounds, seconds
        self._found: dict[tuple[str, str, str], dict[str, float]] = {}
        self._progress = Progress()

    def run(self, pairs: Pairs, then: Pairs = ()) -> None:
        """Small trials where only they can tell, then rounds of large ones. Who never worked is not tried again."""
        tests = [(exercise, side) for exercise, side in pairs if _tested(exercise)]
        self._expect(tests, pairs, self._rounds, then)
        say(f"{self._progress}, environments that have to be made not counted")
        able = [pair for pair in pairs if pair not in tests or self._test(*pair)]
        able = [pair for pair in able if self._known(*pair)]
        for number in range(1, self._rounds + 1):
            self._expect((), able, self._rounds + 1 - number, then)
            able = [pair for pair in able if self._turn(*pair, number) or self._own(*pair)]

    def _expect(self, tests: Pairs, pairs: Pairs, rounds: int, then: Pairs) -> None:
        tests = [*tests, *(pair for pair in then if _tested(pair[0]))]
        large = [(pair, rounds) for pair in pairs] + [(pair, self._rounds) for pair in then]
        turns = len(tests) + sum(times for _, times in large)
        seconds = sum(self._lasts(*pair) * times for pair, times in large)
        self._progress.expect(turns, seconds + len(tests) * SMALL)

    def _lasts(self, exercise: Exercise, side: Contestant) -> float:
        return lasts(exercise, wanted(exercise, side, self._seconds))

    def _test(self, exercise: Exercise, side: Contestant) -> bool:
        if exercise is not BASE and not self._known(exercise, side):
            return False
        return self._take(Turn(side, exercise, 0, small(exercise, side.jobs)), SMALL) is not None

    def _known(self, exercise: Exercise, side: Contestant) -> bool:
        """Whether there is something to size a trial by; what cannot be tried is reported."""
        if exercise is exercises.LIMITS or self._own(BASE, side):
            return True
        if exercise is not BASE:
            self._session.leave(side, exercise, "not tried: it had failed before")
        return False

    def _turn(self, exercise: Exercise, side: Contestant, number: int) -> bool:
        """One large trial, and once more if the side was so much faster than before that the stretch was too short."""
        turn = Turn(side, exercise, number, self._size(exercise, side))
        metrics = self._take(turn, self._lasts(exercise, side))
        if metrics is not None and stretch(exercise, metrics) < wanted(exercise, side, self._seconds):
            self._take(replace(turn, size=self._size(exercise, side)), 0, again=True)
        return metrics is not None

    def _size(self, exercise: Exercise, side: Contestant) -> Size:
        seconds = wanted(exercise, side, self._seconds)
        known = {**self._own(BASE, side), **self._own(ONE, side), **self._own(exercise, side)}
        size = sized(exercise, side.jobs, seconds, known)
        least = int(side.least * min(1.0, seconds / SECONDS))
        return size if exercise is not BASE or size.jobs >= least else drained(exercise, least, seconds, known)

    def _own(self, exercise: Exercise, side: Contestant) -> dict[str, float]:
        return self._found.get((side.name, side.store, exercise.name), {})

    def _take(self, turn: Turn, expected: float, *, again: bool = False) -> dict[str, Any] | None:
        before = len(self._session.lines)
        self._progress.begin()
        metrics = self._session.take(turn, again=again)
        made = len(self._session.lines) > before
        if not again:
            self._progress.end(expected, made=made)
        if made:
            say(str(self._progress))
        if metrics is not None:
            known = self._found.setdefault((turn.side.name, turn.side.store, turn.exercise.name), {})
            for name, value in _values(metrics).items():
                known[name] = max(value, known.get(name, 0))  # so that no stretch is too short
        return metrics


def stretch(exercise: Exercise, metrics: Mapping[str, Any]) -> float:
    """How many seconds were measured of what a trial is made for; endless where jobs do not tell."""
    reported = metrics.get(exercise.name if exercise.kind is Kind.FILL else "process", {})
    return float(reported.get("seconds", inf))


def _tested(exercise: Exercise) -> bool:
    """Whether a small trial comes first."""
    return exercise is not exercises.LIMITS and not exercise.speed


def wanted(exercise: Exercise, side: Contestant, seconds: float) -> float:
    """How long a stretch is: all of it for what a goal judges and what all sides do, half for the rest, a third for a limit."""
    if exercise is exercises.LIMITS:
        return seconds / 3
    whole = exercise in (BASE, ONE) or judged(exercise.name, side.name, side.store)
    return seconds if whole else seconds / 2


def _values(metrics: dict[str, Any]) -> dict[str, float]:
    return {
        name: reported["value"]
        for name, reported in metrics.items()
        if isinstance(reported, dict) and "value" in reported
    }


def pairs(more: Sequence[Exercise], sides: Sequence[Contestant], speed: Speeds) -> Pairs:
    """Who does which exercise: Packhorse, the best peers of each store, and those that a goal names; if they have such a thing."""
    strong = best(sides, speed)
    named = {(goal.metric, peer) for goal in GOALS if goal.peers != ANY for peer in goal.peers}
    return [
        (exercise, side)
        for exercise in more
        for side in sides
        if exercise.name in side.does
        and (side.name == "packhorse" or side in strong or (exercise.name, side.name) in named)
    ]


def speeds(lines: Lines) -> Speeds:
    """How fast each side processes."""
    return {(one.side, one.store): one.middle for one in figures(lines) if one.metric == "process"}


def best(sides: Sequence[Contestant], speed: Speeds) -> list[Contestant]:
    """The fastest peers of each store; of configurations of one that promise the same, the fastest."""
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
