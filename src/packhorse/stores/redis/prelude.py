"""The prelude: what scripts share, in parts.

A script gets only the parts it needs, since setting up a part takes time at each call. A file of the prelude holds parts
that share their locals. The header of a part has its name, the names it gives to scripts and to other files, and the
parts it needs itself::

    -- part: free_and_deliver
    -- gives: free_unique free_and_deliver
    -- needs: builtins hex record_of

The header of a script names the parts it needs in the same way. A test compares headers with the words that are used.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

_PART = re.compile(r"^-- part: (\w+)\n", re.MULTILINE)


class Part(msgspec.Struct, frozen=True):
    """A part of the prelude with its header."""

    name: str
    gives: tuple[str, ...]
    needs: tuple[str, ...]
    text: str


class Prelude:
    """All parts, by name and by file."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.files = [parts_of(text) for text in texts]
        self._parts = {part.name: part for parts in self.files for part in parts}

    def for_script(self, needs: Iterable[str]) -> str:
        """Return the text of these parts and of all that they need, in the order of the files."""
        needed: set[str] = set()
        left = list(needs)
        while left:
            name = left.pop()
            if name not in needed:
                needed.add(name)
                left += self._parts[name].needs
        return "".join(_joined([part for part in parts if part.name in needed]) for parts in self.files)


def parts_of(text: str) -> list[Part]:
    """Return the parts of a file."""
    _, *fields = _PART.split(text)
    return [
        Part(name, header(body, "gives"), header(body, "needs"), body)
        for name, body in zip(fields[::2], fields[1::2], strict=True)
    ]


def header(text: str, word: str) -> tuple[str, ...]:
    """Return the names in all header lines ``-- word: name name``."""
    return tuple(" ".join(re.findall(rf"^-- {word}: (.+)$", text, re.MULTILINE)).split())


def _joined(parts: Sequence[Part]) -> str:
    """Return the parts of one file as a function that sets the locals it gives.

    As a function it looks up once what it uses of other files, not again for each of its closures. Its own locals end
    with it, because Lua allows no more than 200 at a time.
    """
    if not parts:
        return ""
    gives = ", ".join(name for part in parts for name in part.gives)
    return f"local {gives};\n(function()\n{''.join(part.text for part in parts)}end)()\n"
