"""The page that comes of a run: what it tells, what it draws, what it leaves alone."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest

from benchmarks import exercises, page, plot, run
from benchmarks.exercises import ONE
from benchmarks.figures import figures, limits
from benchmarks.metrics import METRICS
from tests.benchmarks.lines import exercise, line

SVG = "{http://www.w3.org/2000/svg}"
BEGUN = {
    "begun": 1_800_000_000, "commit": "abc1234", "cores": 2, "load": 0.5, "system": "Linux 6", "processor": "Abacus",
    "memory": "4 GiB", "files": "servers on ext4", "python": "CPython 3, loop in 9 ms", "versions": {"saq": "1.2.3"},
}  # fmt: skip


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


def test_the_page_names_the_exercises_that_were_no_part_of_the_run():
    every = (*exercises.MORE, *exercises.OPTIONS)
    done = [line("packhorse", "redis", 1, exercise=one, process={"value": 1}) for one in every]
    some = [described for described in done if described["exercise"] not in ("io", "children")]

    assert "- not part of this run: the exercises io, children\n" in page.text([BEGUN, *some])
    assert "All that was asked for was measured." not in page.text([BEGUN, *some])
    assert "All that was asked for was measured." in page.text([BEGUN, *done])


def test_valkey_is_called_by_its_name(tmp_path):
    lines = [
        {**described, "plan": "full, 5 s, on Valkey"} if "plan" in described else described for described in whole_run()
    ]

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


def test_bars_of_our_own_are_distinguished_from_those_of_peers_with_an_option_too(tmp_path):
    lines = [
        line("packhorse", "redis", 0, exercise=exercise(name), process={"value": 9}) for name in ("alone", "lanes")
    ]

    page.write([BEGUN, *lines], tmp_path)

    drawn = (tmp_path / "option.svg").read_text()
    assert drawn.count('class="ours"') == 2
    assert 'class="peer"' not in drawn


def test_what_is_reported_of_a_machine_and_an_interpreter_names_no_path():
    described = run.circumstances(sys.executable)

    assert not page.PATHS.search(json.dumps(described))
    assert "plain loop" in described["python"]
    assert described["versions"]["saq"]


def test_the_page_says_when_the_machine_was_too_busy():
    busy = [{**described, "load": 9.0} if "metrics" in described else described for described in whole_run()]

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
