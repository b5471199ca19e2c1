"""Named constants of the scripts of Redis."""

import re
from importlib.resources import files

import pytest

from packhorse.stores.redis.constants import Constants

FOLDER = files("packhorse.stores.redis") / "lua"
SHIPPED = Constants((FOLDER / "prelude" / "constants.lua").read_text(encoding="utf-8"))


def test_names_are_filled_in_except_in_comments_strings_and_longer_names():
    constants = Constants("ROW_AT = 33\nDONE = 'd' -- a comment\nEND = -1\n")

    text = "sub(row, ROW_AT, END) == DONE -- ROW_AT of 'DONE'\nreturn 'DONE', ROW_AT_2, MY_END"

    filled = "sub(row, 33, -1) == 'd' -- ROW_AT of 'DONE'\nreturn 'DONE', ROW_AT_2, MY_END"
    assert constants.fill(text) == filled


@pytest.mark.parametrize("state", ["RUNNING", "READY", "SCHEDULED", "WAITING"])
def test_the_byte_of_a_state_is_that_of_its_letter(state):
    assert int(SHIPPED.values[f"{state}_BYTE"]) == ord(SHIPPED.values[state].strip("'"))


def test_every_constant_is_used_by_a_script():
    texts = [
        path.read_text(encoding="utf-8")
        for folder in (FOLDER, FOLDER / "plain", FOLDER / "prelude")
        for path in folder.iterdir()
        if path.name.endswith(".lua") and path.name != "constants.lua"
    ]
    words = set(re.findall(r"\w+", "\n".join(texts)))

    assert SHIPPED.values.keys() - words == set()
