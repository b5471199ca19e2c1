"""What pages say about the code is what the code says."""

import ast
import inspect
import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

import packhorse
from packhorse import config, errors
from packhorse.cli.commands.jobs import ls
from packhorse.engine import context, policy, worker
from packhorse.jobs import options, plan_builder, retrying
from packhorse.jobs.queue import Queue
from packhorse.model import duration, job, limits, reason, rule
from packhorse.stores import NAMESPACE
from packhorse.telemetry import logs
from packhorse.telemetry.names import EventName
from tests.crash.programme import SCENARIOS
from tests.docs.tables import DOCS, ROOT, facts, rows, word

SECOND = limits.SECOND
NAMED = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>[^)]+\.py)\)(?P<names>(?:,? `[\w.]+`)+)")
TEST = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>\w+)`")


def kinds() -> set[str]:
    return {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}


def settings() -> Iterator[str]:
    """The names of all settings that are read from the environment, found where they are read."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setting":
                name = ast.literal_eval(node.args[0])
                yield f"PACKHORSE_{name.upper()}"


def defined(path: Path) -> set[str]:
    """What a module defines: names, and methods with their class."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
    return names


def test_every_setting_is_reported_and_no_other():
    assert {word(row[0]) for row in rows("operate/settings.md", "variable")} == set(settings())


def test_the_defaults_of_settings_are_those_of_the_code():
    reported = {word(row[0]): word(row[2]) for row in rows("operate/settings.md", "variable")}
    defaults = worker.Settings()

    assert reported["PACKHORSE_CONCURRENCY"] == str(defaults.concurrency)
    assert duration.micros(reported["PACKHORSE_GRACE"]) == defaults.grace
    assert reported["PACKHORSE_NAMESPACE"] == NAMESPACE
    assert reported["PACKHORSE_URL"].endswith(f"/{config.FILE}")


def test_the_defaults_of_jobs_are_those_of_the_code():
    reported = facts("reference/defaults.md", "about a job")

    assert reported["attempts"].startswith(f"{policy.ATTEMPTS},")
    assert eval(reported["backoff"].split("`")[1], vars(packhorse)) == policy.BACKOFF
    assert reported["timeout"] == "none"
    assert policy.Policy().timeout is None
    assert reported["priority"].startswith(f"{options.PRIORITY};")
    assert word(reported["queue"]) == job.NewJob(task="t").queue
    for name, kept in (("keep_done", job.KEEP_DONE), ("keep_dead", job.KEEP_DEAD)):
        given = eval(word(reported[name]), vars(packhorse))
        assert (given.count, duration.micros(given.age)) == (kept.count, kept.age)
    assert reported["per_key` of a queue"] == str(job.NewJob(task="t").lane_limit)


def test_the_defaults_of_workers_are_those_of_the_code():
    reported, defaults = facts("reference/defaults.md", "about a worker"), worker.Settings()

    assert reported["concurrency"] == str(defaults.concurrency)
    assert reported["lease"] == f"{defaults.lease // SECOND} s"
    assert reported["grace"] == f"{defaults.grace // SECOND} s"
    assert reported["time to stop before code is called stuck"] == f"{defaults.patience // SECOND} s"
    assert reported["losses until a job is dead as `poison"] == str(defaults.max_lost)


def test_the_other_defaults_are_those_of_the_code():
    reported = facts("reference/defaults.md", "elsewhere")
    batch = inspect.signature(Queue.batch).parameters

    assert reported["retrying()"].startswith(f"{retrying.ATTEMPTS} tries, ")
    assert eval(reported["retrying()"].split("`")[1], vars(packhorse)) == retrying.BACKOFF
    assert reported["queue.batch"] == f'`size={batch["size"].default}, wait="{batch["wait"].default}s"`'
    kept = f"the last {context.CHUNKS_KEPT:,}, for {context.CHUNK_AGE_US // SECOND // 3600} h"
    assert reported["pieces of a stream"] == kept
    assert reported["a chosen id is remembered"] == f"at least {job.REMEMBER_US // SECOND // 86400} days"


def test_the_limits_are_those_of_the_code():
    reported = [row[1] for row in rows("reference/defaults.md", "limit")]

    assert limits.PAYLOAD == limits.RESULT == limits.VALUE
    assert limits.HEADERS == limits.PROGRESS
    assert [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)] for cell in reported] == [
        [limits.PAYLOAD],
        [limits.HEADERS],
        [limits.TRACEBACK, limits.MESSAGE],
        [limits.FAILURES],
        [limits.ITEMS, limits.CALL_BYTES >> 20],
        [limits.EFFECTS, limits.CALL_BYTES >> 20],
        [limits.ITEMS, limits.EXCHANGE_BYTES >> 20],
        [limits.NAME, limits.KEY],
        [rule.MIN_EVERY_US // SECOND],
        [0, limits.PRIORITY],
        [plan_builder.FAN_OUT_JOBS],
        [policy.MOST_ATTEMPTS],
        [10_000],
    ]


def test_every_error_is_reported_and_no_other():
    assert {word(row[0]) for row in rows("reference/errors.md", "error")} == kinds()


def test_an_error_says_when_it_comes():
    assert [row[0] for row in rows("reference/errors.md", "error") if not row[1]] == []


def test_every_line_of_the_log_is_reported_with_its_level():
    reported = {word(row[0]): row[1] for row in rows("operate/monitoring.md", "event")}

    assert reported == {name.value: logging.getLevelName(logs._MESSAGES[name][0]) for name in EventName}


def test_the_states_are_those_of_the_code():
    assert [word(row[0]) for row in rows("concepts/jobs.md", "state")] == [state.value for state in job.State]


def test_the_reasons_are_those_that_commands_know_and_something_produces():
    reported = {word(row[0]) for row in rows("concepts/jobs.md", "reason")}
    [choice] = [option.type for option in ls.params if option.name == "reason"]

    assert isinstance(choice, click.Choice)
    assert reported == set(choice.choices)
    assert reported == {*map(str, reason.WaitReason), *map(str, reason.DeadReason)} - set(map(str, reason.UNUSED))


def test_the_units_of_durations_are_those_of_the_code():
    assert f"`{' '.join(duration._UNITS)}`" in (DOCS / "concepts/time.md").read_text()


@pytest.mark.parametrize("page", sorted((DOCS / "internals").glob("*.md")), ids=lambda page: page.stem)
def test_what_the_walk_names_is_where_it_says(page: Path):
    found = list(NAMED.finditer(page.read_text()))
    wrong = [
        f"{match['path']}: {name}"
        for match in found
        for name in re.findall(r"`([\w.]+)`", match["names"])
        if name not in defined((page.parent / match["path"]).resolve())
    ]

    assert wrong == []
    assert [
        match[0] for match in found if match["text"].endswith(".py") and not match["path"].endswith(match["text"])
    ] == []
    assert found or page.stem == "tests"


def test_the_tests_behind_the_guarantees_exist():
    text = (DOCS / "concepts/guarantees.md").read_text()
    named = list(TEST.finditer(text))

    assert len(named) > 5
    assert [match[0] for match in named if match["name"] not in defined(ROOT / match["path"])] == []
    assert set(re.findall(r"scenario `(\w+)`", text)) <= {scenario.name for scenario in SCENARIOS}


def test_every_guarantee_with_a_note_has_one():
    text = (DOCS / "concepts/guarantees.md").read_text()

    assert set(re.findall(r"\[(\^[\w-]+)\](?!:)", text)) == set(re.findall(r"^\[(\^[\w-]+)\]:", text, re.MULTILINE))


def test_the_summary_of_the_package_promises_nothing_that_the_readme_says_is_missing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reported = re.search(r"\n([A-Z][^.]+) do\s+\*\*not exist yet\*\*", (ROOT / "README.md").read_text())
    assert reported is not None
    missing = {re.sub(r"^an? | to .*", "", part).lower() for part in re.split(r",\s+|\s+and\s+", reported[1])}
    summary = " ".join([project["description"], *project["keywords"]]).lower()

    assert missing >= {"outbox", "sagas", "durable workflows"}
    assert [part for part in missing if part.removesuffix("s") in summary] == []
    assert project["description"] == packhorse.__doc__


def test_every_floor_of_the_house_is_reported_from_top_to_bottom():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [floor for layer in contracts[0]["layers"] for floor in re.findall(r"\w+", layer) if floor != "__main__"]
    reported = [name for row in rows("internals/rooms.md", "floor") for name in re.findall(r"\[(\w+)\]", row[0])]

    assert reported == floors


def test_every_folder_of_tests_is_reported():
    there = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py"))}

    assert {Path(word(row[0])).name for row in rows("internals/tests.md", "folder")} >= there


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*.svg")), ids=lambda picture: picture.name)
def test_a_picture_stands_by_itself(picture: Path):
    root = ElementTree.parse(picture).getroot()
    linked = [value for part in root.iter() for name, value in part.attrib.items() if name.endswith("href")]

    assert root.get("viewBox")
    assert [link for link in linked if not link.startswith("#")] == []
    assert "@import" not in picture.read_text()
    assert "url(http" not in picture.read_text()
