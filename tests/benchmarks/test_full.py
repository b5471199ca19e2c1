"""A whole run: how large trials are, who goes through what, and the page that comes of it."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import environments, exercises, full, goals, page, plot, run
from benchmarks.contest import ALL, LIMITS, Contestant
from benchmarks.exercises import AIM, BASE, MORE, ONE, OPTIONS, Exercise, Kind, sized, small
from benchmarks.figures import figures, limits
from benchmarks.metrics import METRICS
from benchmarks.progress import Progress
from benchmarks.run import failed
from benchmarks.trial import COURSES, spread

FOUND = {"process": 9_000.0, "one": 1_000.0, "together": 500.0, "bulk": 40_000.0}
SVG = "{http://www.w3.org/2000/svg}"
BEGUN = {
    "begun": 1_800_000_000, "commit": "abc1234", "cores": 2, "load": 0.5, "system": "Linux 6", "processor": "Abacus",
    "memory": "4 GiB", "files": "servers on ext4", "python": "CPython 3, loop in 9 ms", "versions": {"saq": "1.2.3"},
}  # fmt: skip


def side(name: str, store: str) -> Contestant:
    return next(side for side in (*ALL, *LIMITS) if (side.name, side.store) == (name, store))


def line(name: str, store: str, rate: float, *, number: int = 1, exercise: Exercise = BASE, **metrics: Any) -> dict:
    told = metrics or {
        "python": "CPython",
        "process": {"value": rate},
        "bulk": {"value": rate * 2},
        **spread([1 / rate]),
    }
    about = {"plan": "full, 5 s", "exercise": exercise.name, "round": number, "load": 1.0}
    return {**about, "side": asdict(side(name, store)), "metrics": told}


def exercise(name: str) -> Exercise:
    return next(exercise for exercise in (BASE, ONE, *MORE, *OPTIONS) if exercise.name == name)


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


def test_bulk_is_told_by_an_exercise_of_its_own_and_not_by_what_is_left_of_a_backlog():
    base = line("saq", "redis", 99)
    own = line("saq", "redis", 0, exercise=exercise("bulk"), bulk={"value": 7})

    assert [figure for figure in figures([base]) if figure.metric == "bulk"] == []
    assert [figure.middle for figure in figures([base, own]) if figure.metric == "bulk"] == [7]


def test_a_side_with_an_option_is_held_against_itself_without():
    lines = [
        line("packhorse", "redis", 99),
        line("packhorse", "redis", 0, exercise=exercise("alone"), process={"value": 10}, bulk={"value": 20}),
        line("packhorse", "redis", 0, exercise=exercise("lanes"), process={"value": 5}, bulk={"value": 15}),
    ]

    options = [figure for figure in figures(lines) if figure.metric in ("option", "option-bulk")]
    rows = [row for row in page.text([BEGUN, *lines]).splitlines() if "packhorse: lanes" in row]

    assert {figure.side for figure in options} == {"packhorse: plain", "packhorse: lanes"}
    assert ["0.50x" in rows[0], "0.75x" in rows[1]] == [True, True]


def whole_run() -> list[dict]:
    raw = {"one": {"what": "bare", "value": 4.0}}
    error = {**line("arq", "redis", 1, number=0), "error": "no environment: not in /some/where/else.txt"}
    del error["metrics"]
    return [
        BEGUN,
        {"store": "redis", "what": "redis 9"},
        *(line("packhorse", "redis", rate, number=number) for number, rate in ((0, 1), (1, 100), (2, 300), (3, 200))),
        *(line("saq", "redis", rate, number=number) for number, rate in ((1, 10), (2, 30), (3, 20))),
        line("limit", "redis", 0, exercise=exercises.LIMITS, limits=raw),
        line("packhorse", "redis", 0, exercise=exercise("together"), together={"value": 7.0}),
        line("packhorse", "redis", 0, exercise=exercise("idle"), idle={"value": 0.001}),
        line("packhorse", "redis", 0, one={"value": 2.0}),
        error,
    ]


def test_limits_stand_beside_the_metric_they_belong_to():
    [limit] = limits(whole_run())

    assert (limit.store, limit.metric, limit.what, limit.middle) == ("redis", "one", "bare", 4)
    [row] = [row for row in page.text(whole_run()).splitlines() if "limit: bare" in row]
    assert "0.50x" in row


def test_the_page_tells_ratios_promises_faults_and_how_to_repeat():
    text = page.text(whole_run())

    assert "at commit `abc1234`" in text
    assert "2027-01-15" in text
    assert "| Redis, AOF everysec | saq | 20 | 10.00x | 10 30 20 |" in text
    assert "after the job, kept 10 minutes, AOF everysec" in text
    assert "- arq on redis, round 0: no environment: not in …" in text
    assert "make bench" in text
    assert "busy" not in text


def test_the_page_tells_the_machine_the_interpreter_and_the_versions():
    text = page.text(whole_run())

    assert "- 2 cores, Abacus, 4 GiB, Linux 6, servers on ext4" in text
    assert "- Python of all sides: CPython 3, loop in 9 ms" in text
    assert "| Redis, AOF everysec | saq | 1.2.3 | after the job |" in text
    assert "| Redis, AOF everysec | packhorse | this commit |" in text


def test_the_page_tells_at_which_rate_half_of_the_maximum_was():
    half = [
        {
            **line(name, "redis", 1, exercise=exercise("half")),
            "metrics": {"half-p50": {"value": 0.001}, "rate": rate},
        }
        for name, rate in (("packhorse", 1_500.0), ("saq", 700.0))
    ]

    text = page.text([*whole_run(), *half])

    assert "packhorse at 1,500/s" in text
    assert "saq at 700/s" in text


def test_the_page_says_why_a_goal_was_not_judged_and_which_stretches_were_short():
    fault = {**line("dramatiq", "redis", 1), "error": "it fell over at /some/where/else"}
    del fault["metrics"]
    short = line("saq", "redis", 0, exercise=ONE, one={"value": 1.0, "seconds": 4.2}) | {"size": {"seconds": 5.0}}

    text = page.text([*whole_run(), fault, short])

    assert "- not judged: process, 1 worker on Redis, AOF everysec: dramatiq: it fell over at …" in text
    assert "- shorter than wanted: enqueue one by one, saq on Redis, AOF everysec, 4.2 s in one round" in text


def test_valkey_is_called_by_its_name(tmp_path):
    lines = [{**told, "plan": "full, 5 s, on Valkey"} if "plan" in told else told for told in whole_run()]

    page.write(lines, tmp_path)

    for name in ("index.md", "process.svg"):
        assert "Valkey, AOF everysec" in (tmp_path / name).read_text()
        assert "Redis, AOF everysec" not in (tmp_path / name).read_text()


def test_notes_are_left_as_they_are_and_linked(tmp_path):
    page.write(whole_run(), tmp_path)
    assert "(notes.md)" not in (tmp_path / "index.md").read_text()
    (tmp_path / "notes.md").write_text("by hand")

    page.write(whole_run(), tmp_path)

    assert "(notes.md)" in (tmp_path / "index.md").read_text()
    assert (tmp_path / "notes.md").read_text() == "by hand"


def test_bars_of_our_own_are_told_apart_from_those_of_peers_with_an_option_too(tmp_path):
    lines = [
        line("packhorse", "redis", 0, exercise=exercise(name), process={"value": 9}) for name in ("alone", "lanes")
    ]

    page.write([BEGUN, *lines], tmp_path)

    drawn = (tmp_path / "option.svg").read_text()
    assert drawn.count('class="ours"') == 2
    assert 'class="peer"' not in drawn


def test_what_is_told_of_a_machine_and_an_interpreter_names_no_path():
    told = run.circumstances(sys.executable)

    assert not page.PATHS.search(json.dumps(told))
    assert "plain loop" in told["python"]
    assert told["versions"]["saq"]


def test_the_page_says_when_the_machine_was_too_busy():
    busy = [{**told, "load": 9.0} if "metrics" in told else told for told in whole_run()]

    assert "The machine was busy" in page.text(busy)


def test_every_metric_has_a_plot_and_the_lines_lie_beside_without_paths(tmp_path):
    (tmp_path / "gone.svg").write_text("of an earlier run")

    page.write(whole_run(), tmp_path)

    measured = {figure.metric for figure in figures(whole_run())}
    assert {path.stem for path in tmp_path.glob("*.svg")} == measured
    assert set(re.findall(r"\]\((.*)\.svg\)", (tmp_path / "index.md").read_text())) == measured
    lines = [json.loads(text) for text in (tmp_path / page.LINES).read_text().splitlines()]
    assert len(lines) == len(whole_run())
    assert "/some/where" not in (tmp_path / page.LINES).read_text()


def test_a_plot_can_be_read_on_light_and_on_dark_pages():
    bars = [plot.Bar("ours & <theirs>", 100, 90, 120, "ours"), plot.Bar("peer", 25, 25, 25, "peer")]

    drawn = plot.drawn(METRICS["process"], [plot.Panel("store", bars)])

    assert "prefers-color-scheme: dark" in drawn
    picture = ElementTree.fromstring(drawn)
    widths = [float(rect.get("width", 0)) for rect in picture.iterfind(f"{SVG}rect")][1:]
    assert widths[0] == pytest.approx(widths[1] * 4, rel=0.01)
    assert "ours & <theirs>" in [text.text for text in picture.iterfind(f"{SVG}text")]


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


def test_a_side_without_an_environment_is_told(tmp_path, monkeypatch):
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

    def take(self, turn: run.Turn) -> dict[str, Any] | None:
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
    told = {(line["exercise"], line["error"]) for line in run.ours(session.lines)}
    assert {("base", 2), ("one", 2), ("half", 2), ("lanes", 0), ("lanes", 2)} <= set(ran)
    assert ("base", "no luck") in told
    assert {name for name, why in told if why.startswith("not tried")} == {"one", "half", "lanes"}


def test_a_store_that_cannot_be_opened_is_told_as_a_fault_of_the_measuring(tmp_path, monkeypatch):
    out = tmp_path / "lines"
    ready = environments.of_python(Path(sys.executable), "saq")
    monkeypatch.setattr(environments, "ready", lambda *_: ready)

    with run.Session("full, 5 s", sys.executable, out, lambda _: None, servers={"redis": "nothing"}) as session:
        metrics = session.take(run.Turn(side("saq", "redis"), BASE, 1, exercises.Size(300)))

    assert metrics is None
    assert len(run.ours(session.lines)) == 1


def test_a_peer_that_failed_is_told_and_is_no_fault_of_ours():
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
