"""Named constants of the scripts, filled in when a script is built: they cost nothing at run time."""

import re

_CONSTANT = re.compile(r"^([A-Z][A-Z_]*) = ('(?:[^'\\]|\\.)*'|-?\d+)", re.MULTILINE)
_SKIPPED = r"--[^\n]*|'(?:[^'\\]|\\.)*'"


class Constants:
    """The constants of a text such as ``constants.lua``, each a line ``NAME = value``."""

    def __init__(self, text: str) -> None:
        self.values = dict(_CONSTANT.findall(text))
        self._names = re.compile(rf"{_SKIPPED}|\b(?:{'|'.join(self.values)})\b")

    def fill(self, text: str) -> str:
        """Replace names by values, except in comments and strings."""
        return self._names.sub(lambda found: self.values.get(found[0], found[0]), text)
