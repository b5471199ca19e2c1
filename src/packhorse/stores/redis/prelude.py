"""What all scripts stand on, cut down to what one verb uses: setting up the rest would cost it time in every call.

The prelude comes in parts. The header of a part names what it gives to those behind it (``-- gives: key int``); all
else it holds is its own. A part is a row of statements that begin at the left border. Most make names; one that makes
none belongs to the one before it.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

_GIVES = re.compile(r"^-- gives: (.+)$", re.MULTILINE)
_START = re.compile(r"^(?=[A-Za-z_])(?!end\b)", re.MULTILINE)
_MADE = re.compile(r"(?:local )?(?:function (\w+)\(|(\w+(?:, \w+)*)(?: =| --|$))", re.MULTILINE)
_SKIPPED = re.compile(r"--.*$|'(?:[^'\\]|\\.)*'", re.MULTILINE)
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


class Statement(msgspec.Struct, frozen=True):
    """A piece of a part: the names it makes and the words it has."""

    makes: frozenset[str]
    words: frozenset[str]
    text: str


class Part(msgspec.Struct, frozen=True):
    """A part of the prelude: its own locals end with it, for Lua knows no more than 200 at once."""

    gives: tuple[str, ...]
    statements: tuple[Statement, ...]

    def written(self, needed: set[Statement]) -> str:
        """The part with no more than the statements that are needed, or nothing.

        It is a function: what it has from the parts before it is then looked up once, and not by each of its functions.
        """
        kept = [statement for statement in self.statements if statement in needed]
        if not kept:
            return ""
        made = {name for statement in kept for name in statement.makes}
        gives = ", ".join(name for name in self.gives if name in made)
        return f"local {gives};\n(function()\n{''.join(statement.text for statement in kept)}end)()\n"


class Prelude:
    """The parts, of which every verb gets what it needs."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._parts = [_part(text) for text in texts]
        given = {
            name: statement
            for part in self._parts
            for statement in part.statements
            for name in statement.makes
            if name in part.gives
        }
        self._seen_by = {
            statement: given | {name: own for own in part.statements for name in own.makes}
            for part in self._parts
            for statement in part.statements
        }
        self._given = given

    def for_verb(self, text: str) -> str:
        """The statements that make what a verb uses, those that these use too, as they stand in the parts."""
        needed: set[Statement] = set()
        left = _used(_words(text), self._given)
        while left:
            statement = left.pop()
            if statement not in needed:
                needed.add(statement)
                left += _used(statement.words, self._seen_by[statement])
        return "".join(part.written(needed) for part in self._parts)


def _used(words: frozenset[str], makers: Mapping[str, Statement]) -> list[Statement]:
    return [makers[word] for word in words & makers.keys()]


def _part(text: str) -> Part:
    pieces: list[str] = []
    for piece in _START.split(text)[1:]:
        if _MADE.match(piece):
            pieces.append(piece)
        else:
            pieces[-1] += piece
    return Part(tuple(" ".join(_GIVES.findall(text)).split()), tuple(map(_statement, pieces)))


def _statement(text: str) -> Statement:
    found = _MADE.match(text)
    assert found is not None
    return Statement(frozenset((found[1] or found[2]).split(", ")), _words(text), text)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_SKIPPED.sub("", text)))
