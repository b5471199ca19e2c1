"""The parts of a trial: orders travel, calls are counted, and Packhorse's own side goes through all of them."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.contest import QUICK, packhorse
from benchmarks.environments import PINS, ROOT
from benchmarks.places import opened
from benchmarks.sides import meter
from benchmarks.sides.order import VARIABLE, Order, given
from benchmarks.sides.tally import BACKLOG, PACED, Tally
from benchmarks.trial import Failed, trial


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

    assert meter.between(start, end, 4) == {"jobs": 4, "seconds": 2, "rate": 2, "cpu": 1}
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


def test_packhorse_goes_through_a_whole_trial():
    with opened("sqlite") as place:
        metrics = trial(packhorse("sqlite", 300, "full"), place, Path(sys.executable), one=50, paced=10)

    assert metrics["process"]["ran"] == 300
    assert metrics["one"]["jobs"] == 50
    assert metrics["latency"]["jobs"] == 10


def test_a_side_that_fails_says_why():
    nobody = replace(packhorse("sqlite", 300, "full"), script="nobody")
    with opened("sqlite") as place, pytest.raises(Failed, match="No module named"):
        trial(nobody, place, Path(sys.executable), one=50, paced=10)


def test_pins_hold_names_and_versions_only():
    lines = [line for path in PINS.glob("*.txt") for line in path.read_text().splitlines()]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []


def test_every_side_has_its_script_and_its_pins():
    scripts = {side.script for side in QUICK}
    assert scripts == {path.stem for path in PINS.glob("*.txt")}
    assert [script for script in scripts if not (ROOT / "benchmarks" / "sides" / f"{script}.py").exists()] == []


def test_the_command_explains_itself():
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.quick", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--out" in shown.stdout
