"""The functions of PostgreSQL are one set: entry points and parts apart, no version in a name, none unused."""

import re
from pathlib import Path

from packhorse.stores.postgres.function_set import function_files

PACKAGE = "packhorse.stores.postgres"
STORE = Path(__file__).parents[2] / "src" / "packhorse" / "stores" / "postgres"
DEFINED = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION \{(?:set|schema)\}\.?(\w+)\(", re.MULTILINE)
CALLED = re.compile(r"\{set\}(\w+)\(")
STUB = re.compile(r"(?:SELECT|SELECT [*\w, ]+\s+FROM) \{set\}\w+\([$\d, :a-z]*\);?")

FILES = {path: text for path, text in function_files(PACKAGE) if path != "types.sql"}
PARTS = {Path(path).stem for path in FILES if "/parts/" in path}
ENTRY_POINTS = {Path(path).stem for path in FILES if "/parts/" not in path and not path.startswith("public/")}
STATEMENTS = {path.name: path.read_text() for path in (STORE / "sql").glob("*.sql")}


def test_a_file_defines_the_function_of_its_name_and_no_name_has_a_number():
    assert {path: DEFINED.findall(text) for path, text in FILES.items()} == {path: [Path(path).stem] for path in FILES}
    assert [path for path in FILES if re.search(r"\d", path)] == []


def test_every_entry_point_is_called_by_its_name():
    code = "\n".join(path.read_text() for path in STORE.glob("*.py"))
    assert [name for name in sorted(ENTRY_POINTS) if not re.search(rf'"{name}"', code)] == []


def test_every_part_is_called_by_another_function_or_a_statement():
    called = {
        name
        for own, text in [*((Path(path).stem, text) for path, text in FILES.items()), *STATEMENTS.items()]
        for name in CALLED.findall(text)
        if name != own
    }
    assert PARTS - called == set()


def test_what_is_called_is_there():
    called = {name for text in [*FILES.values(), *STATEMENTS.values()] for name in CALLED.findall(text)}
    assert called <= PARTS | ENTRY_POINTS


def test_no_statement_only_calls_a_function():
    bare = {name: re.sub(r"--.*\n", "", text).strip() for name, text in STATEMENTS.items()}
    assert [name for name, text in bare.items() if STUB.fullmatch(text)] == []
