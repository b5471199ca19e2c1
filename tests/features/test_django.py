"""Jobs of a Django program, beyond its transactions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import kinds
from tests.features.callers import Callers
from tests.features.factories import Place

ROOT = Path(__file__).parents[2]
MAIN = "import asyncio, sys; from tests.features import django_site; asyncio.run(django_site.main(sys.argv[1]))"


@pytest.fixture(params=[kind for kind in kinds() if kind in Callers.KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ends(place: Place, kind: str, run: str) -> list[str]:
    """What became of a job that loses its connection and of two after it, in a program of its own."""
    environment = {**place.environment, "TEST_KIND": kind}
    program = [sys.executable, "-c", MAIN, run]
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("run", ["thread", "process"])
def test_a_job_does_not_meet_a_connection_that_was_lost_in_the_job_before(place: Place, kind: str, run: str):
    assert ends(place, kind, run) == ["done", "done", "done"]


@pytest.mark.parametrize(
    "kind", [kind for kind in kinds() if kind == "postgres"]
)  # the one whose connections can be lost
@pytest.mark.parametrize("run", ["async", "async process"])
def test_a_coroutine_does_not_meet_a_connection_that_was_lost_in_the_job_before(place: Place, kind: str, run: str):
    assert ends(place, kind, run) == ["done", "done", "done"]
