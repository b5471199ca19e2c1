"""Type checkers let pass what is right, and find exactly what is marked as wrong."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from packhorse.jobs.options import CallKeywords, CallOptions, JobKeywords, JobOptions

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parents[1] / "src"
FILES = ("good.py", "good_work.py", "bad.py")
MARK = re.compile(r"  # wrong: (?P<mypy>\S+) (?P<pyright>\S+)$")
MYPY = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<kind>[a-z-]+)\]")

Place = tuple[str, int]
Found = dict[Place, set[str]]


def ask(*command: str, **variables: str) -> str:
    """What a checker says; it may find something wrong, but must not fail itself."""
    checked = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=FOLDER,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode in (0, 1), checked.stdout + checked.stderr
    return checked.stdout


def mypy(folder: Path) -> Found:
    found: Found = defaultdict(set)
    options = ["--strict", "--config-file=", "--python-version=3.11", "--follow-imports=silent", "--hide-error-context"]
    for line in ask("mypy", *options, f"--cache-dir={folder}", *FILES, MYPYPATH=str(SOURCE)).splitlines():
        if match := MYPY.fullmatch(line):
            found[match["file"], int(match["line"])].add(match["kind"])
        else:
            assert ": error: " not in line, line
    return found


def pyright(folder: Path) -> Found:
    found: Found = defaultdict(set)
    options = ["--outputjson", f"--pythonpath={sys.executable}", f"--project={FOLDER}"]
    output = ask("pyright", *options, PYRIGHT_PYTHON_IGNORE_WARNINGS="1")
    for diagnostic in json.loads(output)["generalDiagnostics"]:
        place = (Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1)
        found[place].add(diagnostic.get("rule", diagnostic["message"]).removeprefix("report"))
    return found


def marked(checker: str) -> dict[Place, str]:
    """The lines that are wrong, and what the checker calls it."""
    return {
        (file, number): match[checker]
        for file in FILES
        for number, line in enumerate((FOLDER / file).read_text().splitlines(), 1)
        if (match := MARK.search(line))
    }


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_code_passes_and_exactly_the_marked_lines_fail(checker: Callable[[Path], Found], tmp_path: Path):
    wrong = marked(checker.__name__)

    found = checker(tmp_path)

    assert {
        place: wrong[place] if wrong.get(place) in kinds else sorted(kinds) for place, kinds in found.items()
    } == wrong


def test_every_word_that_says_wrong_is_a_mark():
    """A mark that is misspelt would mark nothing."""
    lines = [
        line for file in FILES for line in (FOLDER / file).read_text().splitlines() if re.search(r"#\s*wrong", line)
    ]

    assert lines
    assert [line for line in lines if not MARK.search(line)] == []


def test_keywords_and_the_options_they_become_have_the_same_names():
    assert set(JobKeywords.__annotations__) == set(JobOptions.__struct_fields__)
    assert set(CallKeywords.__annotations__) == {*JobKeywords.__annotations__, *CallOptions.__struct_fields__} - {"job"}
