"""The crash programme in small: what is acknowledged is never lost, nothing is done twice, nothing stays behind."""

import json
import os
import random
import subprocess
import sys

import pytest

from tests.conftest import all_kinds
from tests.crash.programme import STORES, Scenario, scenarios
from tests.integration.torn import LONG

SLACK = "5"  # seconds: other tests run beside these, and disks may stall
MOST = 300  # seconds that no scenario takes, however busy the machine
ITS_OWN = (
    "always"  # the one scenario for Valkey, which runs the scripts of Redis: what a server writes down is its own work
)
CASES = [
    (kind, scenario)
    for kind in STORES
    if kind in all_kinds()
    for scenario in scenarios(kind)
    if kind != "valkey" or scenario.name == ITS_OWN
]


@pytest.mark.parametrize(("kind", "scenario"), CASES, ids=[f"{kind}-{scenario.name}" for kind, scenario in CASES])
def test_nothing_is_lost_doubled_or_stuck(kind: str, scenario: Scenario):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    arguments = ["--stores", kind, "--only", scenario.name, "--seed", str(seed), "--times", "1"]
    if scenario.tested and not LONG:
        arguments += ["--set", ",".join(f"{word}={number}" for word, number in scenario.tested.items())]
    again = f"reproduce: make crash CRASH='{' '.join(arguments)}'"
    command = [sys.executable, "-m", "tests.crash", *arguments, "--slack", SLACK, "--json"]

    try:
        ran = subprocess.run(command, capture_output=True, check=False, timeout=MOST, text=True)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"not over after {MOST} s: {error.stderr!r}\n{again}")

    assert ran.stdout, f"{ran.stderr}\n{again}"
    [tally] = json.loads(ran.stdout)
    assert not tally["wrong"], f"{tally}\n{ran.stderr[-5000:]}\n{again}"
    assert ran.returncode == 0, again
