"""Processor time a job of two versions of Packhorse, in alternating pairs: what a change costs where it is not used.

Throughput on a busy machine cannot show 1 %. Processor time of the process and of the server can, if both versions run
one after the other many times, and each pair gives a difference.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks import environments, places

ROOT = Path(__file__).parents[1]
JOBS = {"sqlite": 40_000, "redis": 40_000, "postgres": 20_000}
RANK = {10: 2, 20: 6}  # the smallest and the largest so many but one bound the median with some 97 %


def main() -> None:
    """Measure the pairs on each store and print the median difference with its interval."""
    options = arguments()
    before = checked_out(options.before)
    try:
        for store in options.stores:
            with places.opened(store) as place:
                report(
                    store, [pair(place, before, JOBS[store], odd=number % 2 == 1) for number in range(options.pairs)]
                )
    finally:
        shutil.rmtree(before)


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("--before", required=True, help="the revision to compare this tree with")
    parser.add_argument("--pairs", type=int, default=10, choices=sorted(RANK), help="pairs for each store")
    parser.add_argument("--stores", nargs="+", default=list(JOBS), choices=list(JOBS), help="only on these stores")
    return parser.parse_args()


def checked_out(revision: str) -> Path:
    """A copy of the sources of a revision."""
    folder = environments.HOME / "before"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def pair(place: places.Place, before: Path, jobs: int, *, odd: bool) -> tuple[float, float]:
    """Processor seconds a job before and now; every second pair begins with now."""
    order = (ROOT, before) if odd else (before, ROOT)
    spent = {tree: half(place, tree, jobs) for tree in order}
    return spent[before], spent[ROOT]


def half(place: places.Place, tree: Path, jobs: int) -> float:
    """Processor seconds a job of one version, on an empty store."""
    command = [sys.executable, "-m", "benchmarks.pair_body", place.empty(), str(place.server or 0), str(jobs)]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}
    answer = subprocess.run(command, cwd=environments.HOME, env=environment, check=True, capture_output=True, text=True)
    return float(json.loads(answer.stdout))


def report(store: str, pairs: list[tuple[float, float]]) -> None:
    """Print the median of each version, and the median difference between the bounds of its interval."""
    was, now = (statistics.median(values) * 1e6 for values in zip(*pairs, strict=True))
    changes = sorted(100 * (after / before - 1) for before, after in pairs)
    rank = RANK[len(pairs)]
    low, middle, high = changes[rank - 1], statistics.median(changes), changes[-rank]
    print(
        f"{store}: {was:.1f} us a job before, {now:.1f} now; {middle:+.1f} % ({low:+.1f} to {high:+.1f} %)", flush=True
    )


if __name__ == "__main__":
    main()
