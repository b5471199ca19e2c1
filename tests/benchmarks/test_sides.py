"""The parts of a trial: orders travel, calls are counted, and Packhorse's own side goes through all of them."""

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import exercises
from benchmarks.contest import ALL, LIMITS, Contestant, packhorse
from benchmarks.environments import PINS, ROOT, SIDES, Environment, of_python
from benchmarks.exercises import BASE, MORE, ONE, OPTIONS, Exercise, Kind, Size
from benchmarks.metrics import METRICS
from benchmarks.places import opened
from benchmarks.sides import meter
from benchmarks.sides.order import VARIABLE, Order, given
from benchmarks.sides.side import Side, fill
from benchmarks.sides.tally import BACKLOG, PACED, Tally
from benchmarks.trial import PATIENCE, Failed, Trial, trial


def order(folder: Path, **more) -> Order:
    return Order(url="sqlite:///x.db", folder=str(folder), warm=2, one=8, bulk=10, **more)


def test_an_order_arrives_as_it_was_given(tmp_path, monkeypatch):
    sent = order(tmp_path, options={"batch": 500})

    monkeypatch.setenv(VARIABLE, sent.environment()[VARIABLE])

    assert given() == sent
    assert given().backlog == 20


def test_a_tally_is_written_once_the_backlog_is_through(tmp_path):
    tally = Tally(order(tmp_path))

    for number in range(19):
        tally.hit(number, 0.0)
    assert not (tmp_path / BACKLOG).exists()
    tally.hit(19, 0.0)

    written = json.loads((tmp_path / BACKLOG).read_text())
    assert (written["ran"], written["jobs"]) == (20, 18)


def test_a_job_that_ran_twice_does_not_stand_for_another(tmp_path):
    tally = Tally(order(tmp_path))

    for number in (0, *range(19)):
        tally.hit(number, 0.0)
    assert not (tmp_path / BACKLOG).exists()
    tally.hit(19, 0.0)

    written = json.loads((tmp_path / BACKLOG).read_text())
    assert (written["ran"], written["twice"]) == (20, 1)


def test_paced_jobs_are_timed_and_what_warms_up_is_not(tmp_path):
    tally = Tally(order(tmp_path, paced=2))

    for sent in (0.0, 1.0, 0.0, 2.0):
        tally.hit(-1 if not sent else 0, sent)

    assert len(json.loads((tmp_path / PACED).read_text())) == 2
    assert not (tmp_path / BACKLOG).exists()


def test_the_time_of_the_server_is_added_to_our_own():
    start, end = meter.Reading(0, 1, 10), meter.Reading(2, 2, 13)

    assert meter.between(start, end, 4) == {"jobs": 4, "seconds": 2, "value": 2, "cpu": 1}
    assert meter.between(start, meter.Reading(2, 2, None), 4)["cpu"] is None


def test_the_children_of_a_server_count_when_they_have_ended_too():
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    shell = subprocess.Popen(
        ["sh", "-c", '"$1" -c "$2"; echo spun; read wait', "sh", sys.executable, spin], stdin=-1, stdout=-1
    )
    assert shell.stdout is not None
    try:
        assert shell.stdout.readline() == b"spun\n"
        spent = meter.spent_by(shell.pid)
        assert spent is None if not Path("/proc/self/stat").exists() else spent is not None and spent > 0.2
    finally:
        shell.communicate(b"\n")


def tried(exercise: Exercise, size: Size, side: Contestant | None = None, store: str = "sqlite"):
    """Put a side through an exercise in the environment of the tests."""
    side = side or packhorse(store, size.jobs, "")
    with opened(store) as place:
        return trial(side, exercise, place, of_python(Path(sys.executable), side.script), size)


def test_packhorse_goes_through_a_whole_trial():
    metrics = tried(BASE, Size(300, one=50, paced=10))

    assert metrics["process"]["ran"] == 300
    assert metrics["one"]["jobs"] == 50
    assert metrics["p50"]["jobs"] == 10
    assert metrics["p50"]["value"] <= metrics["p99"]["value"] <= metrics["max"]["value"]
    assert metrics["rss"]["value"] > 1_000_000 or not Path("/proc/self/status").exists()


@pytest.mark.parametrize("exercise", [ONE, *MORE, *OPTIONS], ids=lambda exercise: exercise.name)
def test_packhorse_goes_through_every_other_exercise(exercise):
    paced = 10 if exercise.name in ("half", "idle") else 0
    one = 200 if exercise is ONE else 0
    metrics = tried(exercise, Size(300, one, paced, rate=100, seconds=0.1))

    metric = {
        Kind.DRAIN: "process",
        Kind.FILL: exercise.name,
        Kind.PACE: "half-p50",
        Kind.IDLE: "idle",
        Kind.BYTES: "queued",
    }
    described = metrics[metric[exercise.kind]]
    assert described["value"] >= (0 if exercise.name == "idle" else 1e-9)
    assert described.get("ran", 300) == 300


def test_jobs_that_two_workers_share_are_counted_once():
    metrics = tried(Exercise("two", Kind.DRAIN, workers=2), Size(2_000))

    assert (metrics["process"]["ran"], metrics["process"]["twice"]) == (2_000, 0)


@pytest.mark.parametrize("side", LIMITS, ids=lambda side: side.store)
def test_the_limits_of_a_store_are_found_for_the_metrics_they_stand_beside(side):
    metrics = tried(exercises.LIMITS, Size(0, seconds=0.01), side, side.store)

    assert set(metrics["limits"]) == {"one", "bulk", "process"} <= set(METRICS)
    assert all(described["value"] > 0 for described in metrics["limits"].values())


def test_a_store_of_less_durability_is_opened_as_such():
    with opened("sqlite-normal") as place:
        assert place.empty().endswith("?synchronous=normal")


def test_a_side_that_fails_says_why():
    nobody = replace(packhorse("sqlite", 300, "full"), script="nobody")
    with pytest.raises(Failed, match="No module named"):
        tried(BASE, Size(300, one=50, paced=10), nobody)


def test_a_worker_that_ends_is_reported_with_what_it_printed_last():
    side = packhorse("sqlite", 300, "")
    nowhere = "import sys; part = sys.argv[1]; part == 'work' and sys.exit('no luck'); print('{}')"
    with opened("sqlite") as place, pytest.raises(Failed, match="the worker ended with 1; no luck"):
        trial(
            side,
            Exercise("half", Kind.PACE),
            place,
            Environment((sys.executable, "-c", nowhere)),
            Size(300, seconds=0.1),
        )


def test_pins_hold_names_and_versions_only():
    lines = [line for path in PINS.glob("*.txt") for line in path.read_text().splitlines()]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []


def test_every_side_has_its_script_and_its_pins():
    sides = (*ALL, *LIMITS)
    assert {side.environment for side in sides} == {path.stem for path in PINS.glob("*.txt")}
    assert [side.script for side in sides if not list(SIDES.glob(f"{side.script}.*"))] == []


def test_every_side_has_a_name_of_its_own_on_its_store_and_does_what_there_is():
    assert len({(side.name, side.store) for side in ALL}) == len(ALL)
    assert {name for side in ALL for name in side.does} == {exercise.name for exercise in (*MORE, *OPTIONS)}


@pytest.mark.parametrize("command", ["quick", "full"])
def test_the_command_explains_itself(command):
    shown = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{command}", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--out" in shown.stdout


def test_a_side_whose_calls_block_enqueues_many_at_once_in_a_loop(tmp_path):
    class Blocking(Side):
        def __init__(self, order: Order) -> None:
            super().__init__(order)
            self.sent: list[int] = []

        def one(self, number: int, sent: float) -> None:
            self.sent.append(number)

    blocking = Blocking(order(tmp_path, together=1_000))

    filled = asyncio.run(fill(blocking))

    assert blocking.sent == list(range(20))
    assert filled["together"]["jobs"] == 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells processes that their parent was killed")
def test_a_worker_does_not_outlive_a_run_that_is_killed():
    work = "import time; print('up', flush=True); time.sleep(600)"
    run = f"""
import subprocess, sys
from benchmarks.trial import _die_with_parent
worker = subprocess.Popen([sys.executable, "-c", {work!r}], preexec_fn=_die_with_parent, start_new_session=True, stdout=1)
worker.wait()
"""
    parent = subprocess.Popen([sys.executable, "-c", run], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"

    parent.kill()

    assert parent.stdout.read() == b""  # ends when the last of them has ended
    parent.wait()
    parent.stdout.close()


def test_patience_grows_with_what_is_expected(tmp_path):
    asked = Trial(packhorse("sqlite", 1, ""), BASE, None, None, order(tmp_path, seconds=5), 44)  # type: ignore[arg-type]

    assert asked.patience == 176
    assert replace(asked, takes=1).patience == PATIENCE
