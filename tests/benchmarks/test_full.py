"""A whole run: how large trials are, who goes through what, and what happens when one fails."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import environments, exercises, full, goals, run
from benchmarks.contest import ALL
from benchmarks.exercises import AIM, BASE, MORE, ONE, OPTIONS, Kind, sized, small
from benchmarks.figures import figures
from benchmarks.progress import Progress
from benchmarks.run import failed
from benchmarks.trial import COURSES
from tests.benchmarks.lines import exercise, line, side

FOUND = {"process": 9_000.0, "one": 1_000.0, "together": 500.0, "bulk": 40_000.0}


def test_a_backlog_takes_the_wanted_time_without_its_first_tenth():
    size = sized(BASE, 100, 5, FOUND)

    assert size.jobs == 50_000 * AIM
    assert size.paced == 250
    assert size.takes == pytest.approx(size.jobs / 9_000)


@pytest.mark.parametrize("found", [FOUND, {"process": 10.0, "one": 100_000.0, "together": 9.0, "bulk": 9e4}])
@pytest.mark.parametrize("name", ["base", "one", "bulk", "together", "thread", "alone", "two"])
def test_no_stretch_that_a_goal_judges_is_shorter_than_wanted_though_it_gets_a_tenth_faster(name, found):
    judged = exercise(name)

    size = sized(judged, 100, 5, found)

    warm = size.one // 10 or exercises.WARM
    if judged.kind is Kind.FILL:
        stretch, rate = size.one or size.jobs - warm, found[name]
    else:
        stretch, rate = size.jobs * 9 / 10, found["process"] * (judged.speed or 1)
    assert stretch / (rate * 1.1) >= 5


def test_what_a_goal_judges_gets_the_whole_stretch_and_the_rest_half_of_it():
    wanted = {
        (name, one, store): full.wanted(exercise(name), side(one, store), 5)
        for name, one, store in (
            ("thread", "dramatiq", "redis"),
            ("thread", "packhorse", "redis"),
            ("two", "packhorse", "postgres"),
            ("together", "chancy", "postgres"),
            ("bulk", "huey-no-fsync", "sqlite"),
            ("base", "rq", "redis"),
            ("thread", "packhorse", "sqlite"),
            ("two", "saq", "redis"),
            ("idle", "saq", "redis"),
            ("lanes", "packhorse", "redis"),
        )
    }

    assert list(wanted.values()) == [5] * 6 + [2.5] * 4


def test_all_that_a_goal_judges_is_done_by_those_it_names():
    doing = {(exercise.name, one.name, one.store) for exercise, one in full.pairs((*MORE, *OPTIONS), ALL, {})}
    doing |= {(name, one.name, one.store) for one in ALL for name in ("base", "one")}
    made = dict.fromkeys(("process", "p50", "p99", "rss"), ("base",)) | goals.MADE_BY

    for goal in (*goals.GOALS, *goals.BOUNDS):
        peers = getattr(goal, "peers", goals.ANY)
        for name in made.get(goal.metric, (goal.metric,)):
            assert (name, "packhorse", goal.store) in doing
            assert [
                peer for peer in peers if peers != goals.ANY and (name, peer, goals.kind(goal.store)) not in doing
            ] == []


def test_a_whole_run_takes_about_an_hour():
    speed = {(side.name, side.store): float(side.jobs) for side in ALL}
    pairs = [*((one, side) for one in (BASE, ONE) for side in ALL), *full.pairs((*MORE, *OPTIONS), ALL, speed)]

    seconds = sum(exercises.lasts(one, full.wanted(one, side, 5)) for one, side in pairs) * 3

    assert 45 < seconds / 60 < 70


@pytest.mark.parametrize("exercise", [BASE, ONE, *MORE, *OPTIONS], ids=lambda exercise: exercise.name)
def test_no_trial_is_empty_however_slow_a_side_is(exercise):
    slow = dict.fromkeys(FOUND, 0.1)

    for size in (small(exercise, 1), sized(exercise, 1, 0.01, slow)):
        assert size.jobs >= exercises.FEWEST
        assert size.one or size.jobs > exercises.WARM
        assert size.jobs >= size.one + size.one // 10
        assert size.paced or exercise.kind not in (Kind.WHOLE, Kind.PACE, Kind.IDLE)


def test_half_the_maximum_is_half_of_what_can_be_sent_and_run():
    assert sized(exercise("half"), 100, 5, FOUND).rate == 500
    assert sized(exercise("half"), 100, 5, {"process": 10, "one": 10}).rate == exercises.PACE


def test_the_best_peers_of_a_store_are_picked_and_of_equal_promises_only_one():
    lines = [
        line(name, "postgres", rate)
        for name, rate in (("packhorse", 99), ("pgqueuer", 50), ("pgqueuer-100", 40), ("chancy", 9), ("dbos", 3))
    ]
    lines += [line("huey", "sqlite", 5), line("huey-no-fsync", "sqlite", 20)]

    strong = full.best(ALL, full.speeds(lines))

    assert {side.name for side in strong} == {"pgqueuer", "chancy", "huey", "huey-no-fsync"}


def test_a_side_that_a_goal_names_goes_through_its_exercise_though_it_is_not_among_the_best():
    lines = [line(name, "redis", rate) for name, rate in (("bullmq-node", 9), ("huey-redis", 5), ("dramatiq", 1))]

    doing = [
        (exercise.name, side.name)
        for exercise, side in full.pairs(MORE, ALL, full.speeds(lines))
        if side.store == "redis"
    ]

    assert ("thread", "dramatiq") in doing
    assert ("two", "dramatiq") not in doing
    assert ("two", "bullmq-node") in doing
    assert ("thread", "bullmq-node") not in doing  # it has no such thing
    assert ("transaction", "packhorse") not in doing


def test_a_drained_backlog_is_called_after_its_exercise():
    lines = [line("saq", "redis", 99)]
    lines += [
        line("saq", "redis", 0, exercise=exercise(name), process={"value": rate}, bulk={"value": 1})
        for name, rate in (("alone", 10), ("two", 15))
    ]

    values = {figure.metric: figure.middle for figure in figures(lines)}

    assert (values["process"], values["two"], values["gain"]) == (99, 15, 1.5)


def test_bulk_is_reported_by_an_exercise_of_its_own_and_not_by_what_is_left_of_a_backlog():
    base = line("saq", "redis", 99)
    own = line("saq", "redis", 0, exercise=exercise("bulk"), bulk={"value": 7})

    assert [figure for figure in figures([base]) if figure.metric == "bulk"] == []
    assert [figure.middle for figure in figures([base, own]) if figure.metric == "bulk"] == [7]


def test_what_failed_and_then_worked_has_not_failed():
    worked = line("saq", "redis", 1)
    error = {name: value for name, value in worked.items() if name != "metrics"} | {"error": "no"}

    assert failed([error, worked]) == []
    assert failed([worked, error]) == [error]


def test_a_file_of_another_plan_is_not_gone_on_with(tmp_path, monkeypatch):
    out = tmp_path / "lines"
    out.write_text(json.dumps(line("saq", "redis", 1)) + "\n")
    monkeypatch.setattr("sys.argv", ["full", "--seconds", "0.5", "--no-docs", "--out", str(out)])

    with pytest.raises(SystemExit, match="holds another plan"):
        full.main()
    assert failed(run.read(out)) == []


def test_what_a_file_has_is_not_measured_again(tmp_path):
    out = tmp_path / "lines"
    had = line("packhorse", "sqlite", 1)
    out.write_text(json.dumps(had) + "\n")

    with run.Session("full, 5 s", sys.executable, out, lambda _: None) as session:
        metrics = session.take(run.Turn(side("packhorse", "sqlite"), BASE, 1, exercises.Size(300)))

    assert metrics == had["metrics"]
    assert not session.begun
    assert run.read(out) == [json.loads(json.dumps(had))]


def test_a_side_without_an_environment_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "HOME", tmp_path)
    nobody = replace(side("saq", "redis"), pins="huey")
    out = tmp_path / "lines"

    with run.Session("full, 5 s", "/no/such/python", out, lambda _: None) as session:
        metrics = session.take(run.Turn(nobody, BASE, 1, exercises.Size(300)))

    assert metrics is None
    [fault] = failed(run.read(out))
    assert "no environment" in fault["error"]
    assert "commit" in run.read(out)[0]


class Failing(run.Session):
    """Fails trials of our own side of one store, and knows the others."""

    def take(self, turn: run.Turn, *, again: bool = False) -> dict[str, Any] | None:
        if turn.exercise is exercises.LIMITS:
            return {}
        if turn.side.store == "redis":
            self.leave(turn.side, turn.exercise, "no luck")
            return None
        self._keep({"plan": "full, 5 s", "exercise": turn.exercise.name, "round": turn.round, "side": asdict(turn.side),
                    "metrics": {name: {"value": rate} for name, rate in FOUND.items()}})  # fmt: skip
        return self.lines[-1]["metrics"]


def test_a_side_that_fails_at_first_is_left_out_of_the_rest_and_the_others_go_on(tmp_path):
    sides = [side("packhorse", "redis"), side("packhorse", "sqlite")]
    out = tmp_path / "lines"

    with Failing("full, 5 s", sys.executable, out, lambda _: None) as session:
        full.measure(session, sides, 2, 5, ["half", "lanes"])

    ran = [(line["exercise"], line["round"]) for line in session.lines if "metrics" in line]
    described = {(line["exercise"], line["error"]) for line in run.ours(session.lines)}
    assert {("base", 2), ("one", 2), ("half", 2), ("lanes", 0), ("lanes", 2)} <= set(ran)
    assert ("base", "no luck") in described
    assert {name for name, why in described if why.startswith("not tried")} == {"one", "half", "lanes"}


class Warming(run.Session):
    """A side that is faster in long trials than in short ones."""

    turns: list[tuple[run.Turn, bool]]

    def take(self, turn: run.Turn, *, again: bool = False) -> dict[str, Any] | None:
        self.turns.append((turn, again))
        rate = 1_000.0 if turn.round else 500.0
        described = {"value": rate, "seconds": turn.size.jobs * 0.9 / rate}
        return dict.fromkeys(("process", "one", "bulk"), described)


def test_a_stretch_that_was_too_short_is_measured_once_more_with_more_jobs(tmp_path):
    with Warming("full, 5 s", sys.executable, tmp_path / "lines", lambda _: None) as session:
        session.turns = []
        full.Course(session, 2, 5).run([(BASE, side("saq", "redis"))])

    assert [(turn.round, again) for turn, again in session.turns] == [(0, False), (1, False), (1, True), (2, False)]
    assert [turn.size.jobs * 0.9 / 1_000 >= 5 for turn, _ in session.turns] == [False, False, True, True]


def test_of_two_lines_of_a_trial_the_later_counts():
    [figure, *_] = figures([line("saq", "redis", 1), line("saq", "redis", 2)])

    assert figure.values == {1: 2}


def test_a_store_that_cannot_be_opened_is_reported_as_a_fault_of_the_measuring(tmp_path, monkeypatch):
    out = tmp_path / "lines"
    ready = environments.of_python(Path(sys.executable), "saq")
    monkeypatch.setattr(environments, "ready", lambda *_: ready)

    with run.Session("full, 5 s", sys.executable, out, lambda _: None, servers={"redis": "nothing"}) as session:
        metrics = session.take(run.Turn(side("saq", "redis"), BASE, 1, exercises.Size(300)))

    assert metrics is None
    assert len(run.ours(session.lines)) == 1


def test_a_peer_that_failed_is_reported_and_is_no_fault_of_ours():
    error = {name: value for name, value in line("streaq", "redis", 1).items() if name != "metrics"} | {"error": "no"}

    assert run.ours([error]) == []
    assert run.ours([{**error, "side": asdict(side("packhorse", "redis"))}])


def test_a_run_ends_on_sigterm_as_it_does_on_an_interrupt():
    text = """
import os, signal
from benchmarks.run import ends_on_term
ends_on_term()
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    print("stopped")
"""
    ended = subprocess.run(
        [sys.executable, "-c", text], cwd=environments.ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (143, "stopped\n")


def test_what_is_left_is_corrected_by_what_trials_took():
    now = [0.0]
    progress = Progress(lambda: now[0])
    progress.expect(11, 1_100)
    assert progress.left == 1_100

    progress.begin()
    now[0] += 200
    progress.end(100, made=True)

    assert str(progress) == "1/11, about 33 minutes left"


def test_every_kind_of_exercise_has_a_course():
    assert set(COURSES) == set(Kind)
