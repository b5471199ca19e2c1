"""``make crash``: every scenario on every store, one table per store, and a line to play again what went wrong.

With ``--json`` it is what the tests run: a process without threads, from which others can be forked.
"""

import argparse
import json
import os
import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from tests import servers
from tests.crash import proof
from tests.crash.family import warm
from tests.crash.programme import SCENARIOS, STORES, Scenario, play, scenarios
from tests.crash.tally import Tally, table

TIMES = 5
FIXED = ("poison", "linger")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stores", default=",".join(STORES), help="stores, separated by commas")
    parser.add_argument("--only", default="", help=f"scenarios: {', '.join(one.name for one in SCENARIOS)}")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of all that is left to chance")
    parser.add_argument("--times", type=int, default=TIMES, help=f"so many times a small run: {TIMES}")
    parser.add_argument("--kills", type=int, help="SIGKILLs of workers and producers")
    parser.add_argument("--jobs", type=int, help="jobs over which they are spread")
    parser.add_argument("--set", default="", help="other sizes, as poison=3,good=1000")
    parser.add_argument("--slack", type=float, default=0.0, help="seconds that a busy machine may add to any time")
    parser.add_argument("--json", action="store_true", help="print the numbers alone")
    return parser.parse_args()


def main() -> int:
    given = options()
    only = given.only.split(",") if given.only else [one.name for one in SCENARIOS]
    warm()
    wrong = 0
    for kind in given.stores.split(","):
        tallies = []
        with _server(kind) as version:
            for scenario in (one for one in scenarios(kind) if one.name in only):
                size = _size(scenario, given)
                tallies.append(play(scenario, kind, given.seed, size, given.slack))
                long = all(
                    number >= scenario.size[word] * _times(word, proof.LONG_TIMES) for word, number in size.items()
                )
                proof.note_tally(tallies[-1], scenario.name, kind, version, given.seed, long, size)
                _progress(given, f"{kind}: {scenario.title}, {tallies[-1].seconds:.1f} s")
                wrong += bool(tallies[-1].wrong)
        if given.json:
            sys.stdout.write(json.dumps([{**asdict(tally), "wrong": tally.wrong} for tally in tallies]) + "\n")
        else:
            _print(kind, tallies, given)
    return 1 if wrong else 0


def _size(scenario: Scenario, given: argparse.Namespace) -> dict[str, int]:
    size = {word: number * _times(word, given.times) for word, number in scenario.size.items()}
    if scenario.name == "kills":
        size |= {word: getattr(given, word) for word in ("kills", "jobs") if getattr(given, word) is not None}
    others = dict(pair.split("=") for pair in given.set.split(",") if pair)
    return size | {word: int(number) for word, number in others.items() if word in size}


def _times(word: str, times: int) -> int:
    return 1 if word in FIXED else times


@contextmanager
def _server(kind: str) -> Iterator[str]:
    """The server of the tests while they run, else one for this run; its version."""
    if kind == "sqlite":
        yield sqlite3.sqlite_version
        return
    server = servers.find(kind)
    os.environ[servers.variable(kind)] = server.url
    try:
        yield server.version.split()[0]
    finally:
        if server.process is not None:
            del os.environ[servers.variable(kind)]
        server.stop()


def _progress(given: argparse.Namespace, line: str) -> None:
    if not given.json and sys.stderr.isatty():
        sys.stderr.write(line + "\n")


def _print(kind: str, tallies: list[Tally], given: argparse.Namespace) -> None:
    lines = [f"\n{kind}", table(tallies), *(f"  {one.scenario}: {note}" for one in tallies for note in one.notes)]
    wrong = [tally for tally in tallies if tally.wrong]
    for tally in wrong:
        lines += [f"  WRONG {tally.scenario}: {fault}" for fault in tally.wrong]
    if wrong:
        names = ",".join(one.name for one in SCENARIOS if one.title in {tally.scenario for tally in wrong})
        sizes = "".join(f" --{word} {value}" for word in ("kills", "jobs", "set") if (value := getattr(given, word)))
        line = f"--stores {kind} --only {names} --seed {given.seed} --times {given.times}{sizes}"
        lines.append(f"  reproduce: make crash CRASH='{line}'")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
