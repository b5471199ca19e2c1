"""What a Redis script gets of the prelude, and that headers name what is used."""

import re
from collections.abc import Iterable
from importlib.resources import files

import pytest

from packhorse.stores.redis.prelude import Part, Prelude, header, parts_of
from packhorse.stores.redis.scripts import PRELUDE, shipped

FOLDER = files("packhorse.stores.redis") / "lua"
FIRST = """What stands before the parts is for readers alone.
-- part: near
-- gives: near
local way = 1
function near() return way end
-- part: far
-- gives: far
-- needs: near
function far() return near() + way end
-- part: stored
-- gives: stored
stored = {}
"""
SECOND = """-- part: both
-- gives: both
-- needs: far
-- needs: near
function both() return near() + far() end
"""


def test_a_script_gets_the_parts_it_needs_and_those_that_these_need_in_the_order_of_the_files():
    text = Prelude([FIRST, SECOND]).for_script(["both"])

    assert "for readers" not in text
    assert "local near, far;" in text
    assert text.index("function near()") < text.index("function far()") < text.index("function both()")
    assert "stored" not in text


def test_a_script_that_needs_nothing_gets_nothing():
    assert Prelude([FIRST, SECOND]).for_script([]) == ""


def test_a_short_script_is_not_given_what_moves_and_ends_jobs():
    assert "function conclude(" in shipped()["renew"].text
    assert "function end_job(" not in shipped()["renew"].text
    assert "function end_job(" in shipped()["exchange"].text


# -- headers against words

SKIPPED = re.compile(r"--.*$|'(?:[^'\\]|\\.)*'", re.MULTILINE)
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?! =(?!=))")  # what is only assigned is not used
MADE = re.compile(r"^(?:local )?(?:function (\w+)\(|(?!end\b)(\w+(?:, \w+)*)(?: =| --|$))", re.MULTILINE)
PARTS = [parts_of((FOLDER / "prelude" / f"{name}.lua").read_text(encoding="utf-8")) for name in PRELUDE]
SCRIPTS = [
    path
    for folder in (FOLDER, FOLDER / "plain", FOLDER.joinpath("..", "migrations"))
    for path in folder.iterdir()
    if path.name.endswith(".lua")
]


def words(text: str) -> set[str]:
    return set(WORD.findall(SKIPPED.sub("", text)))


def made(part: Part) -> set[str]:
    code = SKIPPED.sub("", part.text)
    return {name for function, names in MADE.findall(code) for name in (function, *names.split(", ")) if name}


def needs(text: str, seen: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """The parts of which this text uses a name."""
    used = words(text)
    return {part for part, names in seen if used & set(names)}


@pytest.mark.parametrize("number", range(len(PARTS)), ids=PRELUDE)
def test_each_part_names_what_it_gives_and_needs(number):
    others = [(part.name, part.gives) for file in PARTS if file is not PARTS[number] for part in file]
    for part in PARTS[number]:
        seen = [(other.name, made(other)) for other in PARTS[number] if other is not part]

        assert set(part.gives) <= made(part), part.name
        assert set(part.needs) == needs(part.text, [*others, *seen]), part.name


@pytest.mark.parametrize("parts", PARTS, ids=PRELUDE)
def test_locals_of_a_part_are_used_in_no_part_before_it(parts):
    for number, part in enumerate(parts):
        own = made(part) - set(part.gives)

        assert not [before.name for before in parts[:number] if own & words(before.text) - made(before)], part.name


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_script_names_what_it_needs(path):
    text = path.read_text(encoding="utf-8")

    assert set(header(text, "needs")) == needs(text, [(part.name, part.gives) for file in PARTS for part in file])


def test_no_name_is_given_twice():
    names = [name for file in PARTS for part in file for name in (part.name, *(set(part.gives) - {part.name}))]

    assert sorted(set(names)) == sorted(names)
