"""Order of every key, without overlap, while workers are killed at random.

``PACKHORSE_TEST_LONG=1`` is the full size; ``PACKHORSE_SEED`` repeats the kills of a run.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterable

import pytest

from packhorse import App
from tests.features.factories import Place, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
LANES = int(os.environ.get("PACKHORSE_LANES", "1000" if LONG else "100"))
JOBS = int(os.environ.get("PACKHORSE_LANE_JOBS", "100000" if LONG else "5000"))
LEASE = 1_000_000
FEW = 5  # kills at least
PATIENCE = 60 + JOBS / 50


async def fill(app: App) -> None:
    queue, lengths = app.queue("lanes"), [0] * LANES
    chance = random.Random(LANES)
    for first in range(0, JOBS, 500):
        calls = []
        for number in range(first, min(first + 500, JOBS)):
            lane = number if number < LANES else chance.randrange(LANES)
            calls.append(queue.call("step", {"key": f"k{lane}", "number": lengths[lane]}, key=f"k{lane}"))
            lengths[lane] += 1
        await app.enqueue(*calls)


class Watch:
    """Follows what happens in each lane and stops at the first thing that may not be."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}
        self._running: dict[str, tuple[int, str]] = {}
        self._dead: set[str] = set()
        self.kills = self.again = 0

    def follow(self, lines: Iterable[list[str]]) -> None:
        for word, *rest in lines:
            if word == "killed":
                self._dead.add(rest[0])
                self.kills += 1
            elif word == "begin":
                self._begin(rest[0], int(rest[1]), rest[2])
            else:
                self._end(rest[0], int(rest[1]), rest[2])

    def _begin(self, key: str, number: int, process: str) -> None:
        before = self._running.get(key)
        assert before is None or before[1] in self._dead, f"{key}: {number} in {process} while {before} runs"
        next_one = self.ended.get(key, 0)
        # The one that ended last may run again, if its worker was killed before the store knew.
        assert number in {next_one - 1, next_one}, f"{key}: {number} instead of {next_one}"
        self.again += number == next_one - 1 or before is not None
        self._running[key] = (number, process)

    def _end(self, key: str, number: int, process: str) -> None:
        assert self._running.pop(key) == (number, process)
        self.ended[key] = max(self.ended.get(key, 0), number + 1)


async def test_per_key_order_is_exact_and_nothing_overlaps_while_workers_are_killed(live: App, place: Place):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    await fill(live)
    killing = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.killing", "lanes", str(LEASE), str(seed), env=place.environment
    )
    try:

        async def all_done() -> bool:
            await asyncio.sleep(0.2)
            assert killing.returncode is None
            counts = await live.queue("lanes").counts()
            if sum(counts[state] for state in ("scheduled", "ready", "running", "waiting")):
                return False
            return len(place.lines("killed")) > FEW  # a busy machine kills late

        await until(all_done, PATIENCE)
    finally:
        killing.send_signal(signal.SIGTERM)
        await killing.wait()

    watch = Watch()
    watch.follow(place.lines())
    assert sum(watch.ended.values()) == JOBS, f"PACKHORSE_SEED={seed}"
    assert watch.kills > FEW
    print(f"{JOBS} jobs, {LANES} lanes, {watch.kills} kills, {watch.again} ran again")  # noqa: T201


@pytest.mark.parametrize(
    "wrong",
    [
        ["begin a 0 1", "begin a 0 2"],  # two at once
        ["begin a 0 1", "begin a 1 1"],
        ["begin a 1 1"],  # out of order
        ["begin a 0 1", "end a 0 1", "begin a 1 1", "end a 1 1", "begin a 0 1"],  # back again
    ],
)
def test_the_watch_stops_at_what_may_not_be(wrong: list[str]):
    with pytest.raises(AssertionError):
        Watch().follow(line.split() for line in wrong)


def test_the_watch_lets_pass_what_a_kill_brings_about():
    watch = Watch()
    lines = [
        "begin a 0 1",
        "killed 1",
        "begin a 0 2",
        "end a 0 2",
        "killed 2",
        "begin a 0 3",
        "end a 0 3",
        "begin a 1 3",
    ]
    watch.follow(line.split() for line in lines)

    assert (watch.ended, watch.kills, watch.again) == ({"a": 1}, 2, 2)
