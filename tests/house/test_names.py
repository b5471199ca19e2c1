"""Names are plain: no private words, no class name twice, constants of time with their unit, shared classes explained."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
CODE = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
SCRIPTS = sorted(path for kind in ("sql", "lua") for path in SOURCE.rglob(f"*.{kind}"))
PRIVATE = frozenset((ROOT / "tests/house/words.txt").read_text().split())
ROUND_TRIP = re.compile(r"round[_ ]trips?", re.IGNORECASE)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

ABOUT_TIME = {
    "ADVANCE", "AFTER", "AGE", "BACKOFF", "DELAY", "DURATION", "EVERY", "EXPIRY", "GRACE", "INTERVAL", "LEASE",
    "PATIENCE", "PAUSE", "PERIOD", "POLL", "REMEMBER", "TIME", "TIMEOUT", "TTL", "UNTIL", "WAIT",
}  # fmt: skip
UNITS = {"US", "MS", "SECONDS", "HOURS", "DAYS", "YEARS", "INSTRUCTIONS"}
NUMBERS = {
    "POLL_GROWTH": "a factor",
    "MAX_WAITING_READ": "a number of jobs",
}
MOODS = {
    "ASIDE", "BITE", "BYE", "FEW", "HOPELESS", "HOT", "LAST", "LATER", "LATEST", "LONG", "LONGEST", "LOOK", "MOMENT",
    "MOST", "OLD", "PATIENCE", "REST", "SHORTEST", "SLOW", "SOON", "START", "WATCH",
}  # fmt: skip


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def parts(text: str) -> set[str]:
    """The words of a text or a name, in small letters and in the singular too."""
    words = {part.lower() for part in PART.findall(ROUND_TRIP.sub("", text))}
    return words | {word.removesuffix("s") for word in words} | {word.removesuffix("es") for word in words}


def names(tree: ast.AST) -> set[str]:
    """The identifiers of a module: its own, those it imports, attributes, arguments and keywords."""
    fields = ("id", "attr", "arg", "name", "asname")
    return {name for node in ast.walk(tree) for field in fields if isinstance(name := getattr(node, field, None), str)}


def constants() -> Iterator[tuple[Path, str, ast.expr]]:
    """Names in capitals that a module binds, with their values."""
    for path in MODULES:
        for node in parsed(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            for target in targets:
                together = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                for name, each in zip(target.elts, value.elts, strict=True) if together else [(target, value)]:
                    if isinstance(name, ast.Name) and name.id.lstrip("_").isupper() and isinstance(each, ast.expr):
                        yield path, name.id.lstrip("_"), each


def is_number(value: ast.expr) -> bool:
    """Whether a value is a number, or computed from numbers and from names."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    return isinstance(value, ast.Attribute | ast.Name) and getattr(value, "attr", getattr(value, "id", "")).isupper()


def defined_classes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(shown(path))
    return found


def test_private_words_are_no_identifiers():
    found = {(shown(path), name) for path in CODE for name in names(parsed(path)) if parts(name) & PRIVATE}
    assert sorted(found) == []


def test_private_words_name_no_file():
    files = [*CODE, *SCRIPTS]
    assert [shown(path) for path in files if parts(path.stem) & PRIVATE] == []


@pytest.mark.parametrize("files", [MODULES, SCRIPTS], ids=["python", "sql and lua"])
def test_private_words_stand_nowhere_in_the_package(files: list[Path]):
    found = [
        (shown(path), number, sorted(parts(line) & PRIVATE))
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if parts(line) & PRIVATE
    ]
    assert found == []


def test_a_class_name_occurs_once():
    assert {name: places for name, places in defined_classes().items() if len(places) > 1} == {}


def test_constants_of_time_end_in_their_unit():
    found = [
        (shown(path), name)
        for path, name, value in constants()
        if is_number(value)
        and set(name.split("_")) & ABOUT_TIME
        and not set(name.split("_")) & UNITS
        and name not in NUMBERS
    ]
    assert found == []


def test_constants_are_no_moods():
    assert [(shown(path), name) for path, name, value in constants() if is_number(value) and name in MOODS] == []


def imports(tree: ast.Module) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("packhorse")
        for alias in node.names
    }


def test_the_glossary_explains_every_class_that_more_than_one_module_uses():
    imported = [imports(parsed(path)) for path in MODULES if path.name != "__init__.py"]
    shared = {name for name in defined_classes() if sum(name in names for names in imported) > 1}
    explained = set(re.findall(r"`(\w+)`", (ROOT / "docs/glossary.md").read_text()))

    assert len(shared) > 100
    assert sorted(shared - explained) == []
