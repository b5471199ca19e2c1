"""What pages say about the code is what the code says."""

import ast
import inspect
import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import packhorse
from packhorse import config, errors
from packhorse.engine import context, policy, worker
from packhorse.jobs import flows, options, retrying
from packhorse.jobs.queue import Queue
from packhorse.model import caps, duration, job, reason, rule
from packhorse.stores import NAMESPACE
from packhorse.telemetry import logs
from packhorse.telemetry.names import Name
from tests.crash.programme import SCENARIOS
from tests.docs.tables import DOCS, ROOT, facts, rows, word

SECOND = caps.SECOND
NAMED = re.compile(r"\[[^\]]+\]\((?P<path>[^)]+\.py)\)(?P<names>(?:,? `[\w.]+`)+)")
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


def test_every_setting_is_told_and_no_other():
    assert {word(row[0]) for row in rows("operate/settings.md", "variable")} == set(settings())


def test_the_defaults_of_settings_are_those_of_the_code():
    told = {word(row[0]): word(row[2]) for row in rows("operate/settings.md", "variable")}
    defaults = worker.Settings()

    assert told["PACKHORSE_CONCURRENCY"] == str(defaults.concurrency)
    assert duration.micros(told["PACKHORSE_GRACE"]) == defaults.grace
    assert told["PACKHORSE_NAMESPACE"] == NAMESPACE
    assert told["PACKHORSE_URL"].endswith(f"/{config.FILE}")


def test_the_defaults_of_jobs_are_those_of_the_code():
    told = facts("reference/defaults.md", "about a job")

    assert told["attempts"].startswith(f"{policy.ATTEMPTS},")
    assert eval(told["backoff"].split("`")[1], vars(packhorse)) == policy.BACKOFF
    assert told["timeout"] == "none"
    assert policy.Policy().timeout is None
    assert told["priority"].startswith(f"{options.PRIORITY};")
    assert word(told["queue"]) == job.NewJob(task="t").queue
    for name, kept in (("keep_done", job.KEEP_DONE), ("keep_dead", job.KEEP_DEAD)):
        said = eval(word(told[name]), vars(packhorse))
        assert (said.count, duration.micros(said.age)) == (kept.count, kept.age)
    assert told["per_key` of a queue"] == str(job.NewJob(task="t").lane_limit)


def test_the_defaults_of_workers_are_those_of_the_code():
    told, defaults = facts("reference/defaults.md", "about a worker"), worker.Settings()

    assert told["concurrency"] == str(defaults.concurrency)
    assert told["lease"] == f"{defaults.lease // SECOND} s"
    assert told["grace"] == f"{defaults.grace // SECOND} s"
    assert told["time to stop before code is called stuck"] == f"{defaults.patience // SECOND} s"
    assert told["losses until a job is dead as `poison"] == str(defaults.max_lost)


def test_the_other_defaults_are_those_of_the_code():
    told = facts("reference/defaults.md", "elsewhere")
    batch = inspect.signature(Queue.batch).parameters

    assert told["retrying()"].startswith(f"{retrying.ATTEMPTS} tries, ")
    assert eval(told["retrying()"].split("`")[1], vars(packhorse)) == retrying.BACKOFF
    assert told["queue.batch"] == f'`size={batch["size"].default}, wait="{batch["wait"].default}s"`'
    kept = f"the last {context.CHUNKS_KEPT:,}, for {context.CHUNK_AGE // SECOND // 3600} h"
    assert told["pieces of a stream"] == kept
    assert told["a chosen id is remembered"] == f"at least {job.REMEMBER // SECOND // 86400} days"


def test_the_limits_are_those_of_the_code():
    told = [row[1] for row in rows("reference/defaults.md", "limit")]

    assert caps.PAYLOAD == caps.RESULT == caps.VALUE
    assert caps.HEADERS == caps.PROGRESS
    assert [[int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)] for cell in told] == [
        [caps.PAYLOAD],
        [caps.HEADERS],
        [caps.TRACEBACK, caps.MESSAGE],
        [caps.FAILURES],
        [caps.ITEMS, caps.CALL_BYTES >> 20],
        [caps.EFFECTS, caps.CALL_BYTES >> 20],
        [caps.ITEMS, caps.EXCHANGE_BYTES >> 20],
        [caps.NAME, caps.KEY],
        [rule.SHORTEST // SECOND],
        [0, caps.PRIORITY],
        [flows.SPREAD],
        [policy.MOST_ATTEMPTS],
        [10_000],
    ]


def test_every_error_is_told_and_no_other():
    assert {word(row[0]) for row in rows("reference/errors.md", "error")} == kinds()


def test_an_error_says_when_it_comes():
    assert [row[0] for row in rows("reference/errors.md", "error") if not row[1]] == []


def test_every_line_of_the_log_is_told_with_its_level():
    told = {word(row[0]): row[1] for row in rows("operate/monitoring.md", "event")}

    assert told == {name.value: logging.getLevelName(logs._SAID[name][0]) for name in Name}


def test_the_states_are_those_of_the_code():
    assert [word(row[0]) for row in rows("concepts/jobs.md", "state")] == [state.value for state in job.State]


def test_the_reasons_that_are_told_exist():
    told = {word(row[0]) for row in rows("concepts/jobs.md", "reason")}

    assert told <= {*map(str, reason.WaitReason), *map(str, reason.DeadReason)}


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


def test_every_floor_of_the_house_is_told_from_top_to_bottom():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [floor for layer in contracts[0]["layers"] for floor in re.findall(r"\w+", layer) if floor != "__main__"]
    told = [name for row in rows("internals/rooms.md", "floor") for name in re.findall(r"\[(\w+)\]", row[0])]

    assert told == floors


def test_every_folder_of_tests_is_told():
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
