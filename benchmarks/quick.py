"""Packhorse beside huey, dramatiq, saq and pgqueuer in about two minutes: which goals are met, which are missed.

Runs are short and the machine may be busy, so only the ratios mean something, and a difference under 30 % is none.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import environments, table
from benchmarks.contest import QUICK, Contestant
from benchmarks.exercises import QUICK as WHOLE
from benchmarks.exercises import Size
from benchmarks.figures import figures
from benchmarks.run import Lines, Session, Turn, ends_on_term, ours

AGAIN = "measure again when the machine is idle"
PLAN, ROUNDS, ONE, PACED = "quick", 3, 600, 100


def main() -> int:
    """Measure, print, and answer 1 if Packhorse could not be measured, or the measuring failed; a peer is only reported."""
    options = arguments()
    ends_on_term()
    environments.HOME.mkdir(exist_ok=True)
    out = options.out or environments.HOME / "quick.jsonl"
    if not options.resume:
        out.unlink(missing_ok=True)
    python = environments.choose(options.python)
    load, begun = os.getloadavg()[0], time.monotonic()
    with Session(PLAN, python, out, say) as session:
        for turn in turns(chosen(options.stores), options.rounds):
            session.take(turn)
    lines = session.lines
    print(heading(lines, load, time.monotonic() - begun))
    print(table.report(lines, figures(lines)))
    return bool(ours(lines))


def turns(sides: Sequence[Contestant], rounds: int) -> Iterator[Turn]:
    """All sides in turn, round after round."""
    for number in range(1, rounds + 1):
        for side in sides:
            yield Turn(side, WHOLE, number, Size(side.jobs, ONE, PACED))


def say(text: str) -> None:
    """Tell how far it is."""
    print(f"  {text}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("--out", type=Path, help="write JSON lines to this file (default: .bench/quick.jsonl)")
    parser.add_argument("--resume", action="store_true", help="go on where the file ends, instead of beginning anew")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="trials of each side; the medians count")
    parser.add_argument(
        "--stores", nargs="+", choices=sorted({side.store for side in QUICK}), help="only on these stores"
    )
    parser.add_argument("--python", help="interpreter for all sides (default: the fastest build of our version here)")
    return parser.parse_args()


def chosen(stores: list[str] | None) -> tuple[Contestant, ...]:
    """The sides on these stores."""
    return tuple(side for side in QUICK if stores is None or side.store in stores)


def heading(lines: Lines, load: float, seconds: float) -> str:
    """What was measured on, and whether the machine had other work to do."""
    pythons = sorted({line["metrics"]["python"] for line in lines if "metrics" in line})
    stores = dict.fromkeys(line["what"] for line in lines if "what" in line)
    cores, after = os.cpu_count() or 1, os.getloadavg()[0]
    busy = [f"  BUSY: more load than cores, so neither met nor missed proves anything; {AGAIN}"] * (load > cores)
    return "\n".join(
        (
            f"{PLAN}: {seconds:.0f} s on {cores} cores, load average {load:.1f} before, {after:.1f} after",
            *busy,
            f"  Python for all sides: {'; '.join(pythons)}",
            *(f"  {what}" for what in stores),
            "",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
