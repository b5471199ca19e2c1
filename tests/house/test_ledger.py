"""The ledger of the mission is whole, and names only what exists."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
UNUSED = {"S47", "S50"}
ROWS = [name for number in range(1, 66) if (name := f"S{number:02}") not in UNUSED]
# The rows that the surface of jobs is about: each has tests of its own among the features, with its number in their names.
JOBS = [f"S{number:02}" for number in (*range(1, 10), *range(11, 18), 19, 20, 25, 26, 28, *range(32, 36), 41)]
STATES = ("works", "partly", "not yet")


class Row(NamedTuple):
    """One line of the ledger."""

    name: str
    capability: str
    state: str
    test: str
    example: str
    open: str


def ledger() -> list[Row]:
    lines = (ROOT / "docs" / "mission.md").read_text().splitlines()
    return [Row(*(cell.strip(" `") for cell in line.strip("|").split("|"))) for line in lines if line.startswith("| S")]


def written(path: Path) -> set[str]:
    """The names of the tests in a file."""
    return {
        part.name
        for part in ast.parse(path.read_text()).body
        if isinstance(part, ast.AsyncFunctionDef | ast.FunctionDef) and part.name.startswith("test_")
    }


def rows(fits: Callable[[Row], object] = bool) -> pytest.MarkDecorator:
    """Run a test for each row that fits."""
    return pytest.mark.parametrize("row", [row for row in ledger() if fits(row)], ids=lambda row: row.name)


def test_every_row_of_the_mission_is_there_once_and_in_order():
    assert [row.name for row in ledger()] == ROWS


@rows()
def test_a_row_says_how_far_it_is(row: Row):
    assert row.state in STATES
    assert row.capability


@rows()
def test_what_can_be_used_has_a_test_and_what_cannot_has_none(row: Row):
    assert bool(row.test) == (row.state != "not yet")
    assert bool(row.open) == (row.state == "partly")


@rows(lambda row: row.test)
def test_the_test_of_a_row_exists(row: Row):
    path, _, name = row.test.partition("::")

    assert path.startswith("tests/")
    assert (ROOT / path).exists()
    assert not name or name in written(ROOT / path)


@rows(lambda row: row.example)
def test_the_example_of_a_row_exists_and_is_run_by_the_tests(row: Row):
    runner = ROOT / "tests" / "examples" / f"test_{Path(row.example).name}.py"

    assert row.example.startswith("examples/")
    assert (ROOT / row.example / "README.md").is_file()
    assert f"from {row.example.replace('/', '.')}" in runner.read_text()


@rows(lambda row: row.name in JOBS and row.state != "not yet")
def test_a_row_about_jobs_is_shown_by_a_feature_test_of_its_number(row: Row):
    assert re.fullmatch(rf"tests/features/test_\w+\.py::test_{row.name.lower()}_\w+", row.test)
