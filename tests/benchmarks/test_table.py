"""What a run says: every goal with a word, every fault described, every side with its promises."""

from dataclasses import asdict

import pytest

from benchmarks import quick, run, table
from benchmarks.contest import QUICK
from benchmarks.figures import Figure, figures
from benchmarks.goals import Bound, Goal
from benchmarks.trial import last, share, spread


def trial(name: str, number: int, rate: float, *, cpu: float | None = 1e-6) -> dict:
    side = next(side for side in QUICK if side.name == name and side.store in ("redis", "postgres"))
    described = {"value": rate, "cpu": cpu}
    metrics = {
        "python": "CPython",
        "process": described,
        "one": described,
        "bulk": described,
        **spread([1 / rate, 2 / rate]),
    }
    return {"plan": "quick", "exercise": "quick", "round": number, "side": asdict(side), "metrics": metrics}


def words(text: str) -> list[str]:
    return [line.split()[-1] for line in text.splitlines()[2:]]


def test_a_goal_has_the_word_met_or_missed_or_that_it_was_not_measured():
    goals = [Goal("process", "redis", wanted, (peer,)) for wanted, peer in ((5, "saq"), (5.1, "saq"), (1, "arq"))]
    found = [
        Figure("packhorse", "redis", "process", {1: 50, 2: 51, 3: 49}),
        Figure("saq", "redis", "process", {1: 10, 2: 11, 3: 9}),
        Figure("packhorse", "redis", "idle", {1: 0.002, 2: 0.02, 3: 0.003}),
    ]
    bounds = [Bound("idle", "redis", wanted) for wanted in (0.01, 0.001)] + [Bound("rss", "redis", 1)]

    assert words(table.goal_table(found, goals, bounds)) == ["met", "missed", "measured"] * 2


def test_a_goal_judged_after_too_few_rounds_says_so():
    found = [Figure(side, "redis", "process", {1: 10}) for side in ("packhorse", "saq")]

    assert table.goal_table(found, [Goal("process", "redis", 1, ("saq",))], []).endswith("met (rounds: 1)")


def test_jobs_that_ran_twice_are_reported():
    line = trial("saq", 2, 10)
    line["metrics"]["process"] = {**line["metrics"]["process"], "twice": 1}

    assert table.faults([line]) == ["Went wrong\n  saq on redis, round 2: 1 of its jobs ran twice"]
    assert table.faults([trial("saq", 1, 10)]) == []


def test_rounds_become_one_figure_a_metric():
    found = figures([trial("saq", number, rate) for number, rate in ((0, 99), (1, 10), (2, 30), (3, 20))])

    [process] = [figure for figure in found if figure.metric == "process"]
    assert (process.side, process.store, process.values) == ("saq", "redis", {1: 10, 2: 30, 3: 20})
    assert process.middle == 20
    assert {figure.metric for figure in found} == {"process", "one", "bulk", "p50", "p99", "max"}


def test_processor_time_that_is_not_known_is_left_out():
    [figure, *_] = figures([trial("saq", 1, 10, cpu=None)])

    assert figure.cpu == {}


def test_a_report_tells_what_could_not_be_measured_and_why():
    failed = {
        "plan": "quick",
        "exercise": "quick",
        "round": 0,
        "side": trial("saq", 1, 1)["side"],
        "error": "no environment: no such version",
    }

    text = table.report([trial("packhorse", 1, 10), failed], figures([trial("packhorse", 1, 10)]))

    assert "saq on redis, round 0: no environment: no such version" in text
    assert "kept 10 minutes" in text


def test_a_trial_is_known_again_by_its_plan_side_and_round():
    first = trial("saq", 1, 10)

    assert run.key(first) == run.key({**trial("saq", 1, 99), "error": "late"})
    assert run.key(first) != run.key(trial("saq", 2, 10))
    assert run.key(first) != run.key({**first, "exercise": "two"})
    assert run.key(first) != run.key({**first, "side": {**first["side"], "jobs": 1}})


def test_a_torn_last_line_is_left_out(tmp_path):
    out = tmp_path / "lines"
    out.write_text('{"round": 1}\n{"rou')

    assert run.read(out) == [{"round": 1}]
    assert run.read(tmp_path / "none") == []


def test_columns_are_as_wide_as_their_widest_cell():
    assert table.columns([("a", "bb"), ("ccc", "d")], right=(1,)) == "  a    bb\n  ccc   d"


@pytest.mark.parametrize(("count", "part", "expected"), [(1, 0.99, 1), (100, 0.5, 50), (100, 0.99, 99), (3, 0.5, 2)])
def test_a_share_of_values_is_the_nearest_rank(count, part, expected):
    assert share([float(value) for value in range(1, count + 1)], part) == expected


def test_of_a_traceback_the_error_is_reported():
    assert last("Traceback\n  File\nValueError: no\n\n") == "ValueError: no"
    assert last("  | ExceptionGroup\n    | ValueError: no\n    +-----------\n") == "ValueError: no"
    assert last("") == "it given nothing"


def test_a_busy_machine_is_reported_in_the_heading():
    assert "BUSY" in quick.heading([], 10_000.0, 1)
    assert "BUSY" not in quick.heading([], 0.0, 1)


def test_a_quick_run_puts_all_sides_through_each_round_in_turn():
    taken = list(quick.turns(quick.chosen(None), 3))

    assert [turn.round for turn in taken] == [1] * len(QUICK) + [2] * len(QUICK) + [3] * len(QUICK)
    assert [turn.side for turn in taken] == [*QUICK] * 3
    assert {turn.exercise.name for turn in taken} == {"quick"}
    assert all(turn.size.one and turn.size.paced and turn.size.jobs > turn.size.one for turn in taken)


def test_a_quick_run_says_met_or_missed_of_each_goal_that_its_peers_can_judge():
    described = {"value": 10.0, "cpu": 1e-6}
    metrics = {
        "python": "CPython",
        "process": described,
        "one": described,
        "bulk": described,
        **spread([1.0]),
        "rss": {"value": 1.0},
    }
    lines = [
        {"plan": "quick", "exercise": "quick", "round": turn.round, "side": asdict(turn.side), "metrics": metrics}
        for turn in quick.turns(QUICK, 3)
    ]

    text = table.report(lines, figures(lines)).partition("Goals\n")[2]
    rows = {
        word: [row for row in text.splitlines() if row.endswith(word)] for word in ("met", "missed", "not measured")
    }

    assert len(rows["met"]) == 12  # one by one and both latencies on three stores; memory
    assert len(rows["missed"]) == 10  # process and bulk, and the ceilings
    assert {row.split("  ")[-2].strip() or "bullmq-node" for row in rows["not measured"]} <= {
        "bullmq-node",
        "procrastinate",
    }
