"""The house stays tidy: sizes, where SQL and clocks may stand, what must be used."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "packhorse"
MODULES = sorted((ROOT / "src").rglob("*.py"))
SQL_WORDS = re.compile(
    r"\b(SELECT\s|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX|FUNCTION))", re.IGNORECASE
)
SESSION_WORDS = re.compile(r"^\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|LISTEN|UNLISTEN)\b")
NAMES = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
FOREIGN = re.compile(r"/root/|/work/|/home/|pypi\.org|pythonhosted|registry\.npmjs|deb\.debian")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def texts(path: Path) -> Iterator[str]:
    """String literals of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


def test_a_module_is_short_or_has_a_reason():
    reasons = dict(line.split(maxsplit=1) for line in (ROOT / "tests/house/large.txt").read_text().splitlines())
    places = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    long = {shown(path) for path in places if len(path.read_text().splitlines()) > 400}

    assert long == set(reasons)
    assert len(reasons) <= 5


def test_sql_stands_in_sql_files():
    found = [shown(path) for path in MODULES for text in texts(path) if SQL_WORDS.search(text)]
    assert found == []


def test_only_the_database_modules_steer_transactions_and_sessions():
    found = {path.name for path in MODULES for text in texts(path) if SESSION_WORDS.search(text)}
    assert found <= {"database.py", "file.py", "write_batch.py", "wakes.py"}


def test_only_the_clock_knows_the_time():
    clock = SOURCE / "model" / "clock.py"
    pattern = re.compile(r"^\s*(import time\b|from time\b)|datetime\.now|asyncio\.sleep", re.MULTILINE)
    assert [shown(path) for path in MODULES if path != clock and pattern.search(path.read_text())] == []


def test_chance_comes_from_one_place():
    chance = SOURCE / "model" / "randomness.py"
    pattern = re.compile(r"^\s*(import random\b|from random\b)", re.MULTILINE)
    assert [shown(path) for path in MODULES if path != chance and pattern.search(path.read_text())] == []


def test_modules_are_named_for_what_they_hold():
    assert [shown(path) for path in MODULES if path.stem in NAMES] == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_statement_is_used(store: str):
    from packhorse.stores.sql.statements import Statements

    code = "\n".join(path.read_text() for path in (SOURCE / "stores" / store).glob("*.py"))
    unused = [name for name in Statements(f"packhorse.stores.{store}").names if not re.search(rf"\b{name}\b", code)]
    assert unused == []


def test_every_script_is_used():
    code = "\n".join(path.read_text() for path in (SOURCE / "stores" / "redis").glob("*.py"))
    scripts = [path.stem for path in (SOURCE / "stores" / "redis" / "lua").glob("*.lua")]
    assert scripts
    assert [name for name in scripts if not re.search(rf"\b{name}\b", code)] == []


def test_every_step_of_a_layout_says_whether_older_releases_work_with_it():
    steps = [*(SOURCE / "stores").glob("*/migrations/*.sql"), *(SOURCE / "stores").glob("*/migrations/*.lua")]

    assert len(steps) >= 3
    assert [path for path in steps if not re.match(r"-- compatible: (yes|no)\n", path.read_text())] == []


def test_no_module_keeps_mutable_state():
    found = []
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            value = getattr(node, "value", None)
            names = [getattr(t, "id", "") for t in getattr(node, "targets", [getattr(node, "target", None)])]
            lower = any(name and name != "__all__" and not name.lstrip("_").isupper() for name in names)
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and lower
                and isinstance(value, ast.List | ast.Dict | ast.Set)
            ):
                found.append(shown(path))
    assert found == []


def test_decisions_are_short():
    long = [shown(path) for path in (ROOT / "docs/adr").glob("*.md") if len(path.read_text().splitlines()) > 20]
    assert long == []


def test_constraints_hold_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []


def test_the_project_speaks_of_the_project_alone():
    own = Path(__file__)
    readable = [path for path in tracked() if path != own and path.suffix not in {".png", ".ico"}]
    assert [shown(path) for path in readable if FOREIGN.search(path.read_text(errors="ignore"))] == []
