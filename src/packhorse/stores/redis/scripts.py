"""Scripts live in ``.lua`` files, one a verb, and are known by the name of their file.

The header of a verb names its arguments: ``-- args: limit keep targets:1``. Python calls with those names; the loader
binds them to locals of the script, behind the common prelude. A plain name is one value. A name with a width stands
for a list of rows and is given as one flat sequence; it travels flat after the number of its rows. Two values come
before all others: the moment, empty where the server's clock rules, and whether events are wanted.

A verb may have a short way for plain jobs, in ``plain/`` under the same name and with the same arguments. It answers, or
it comes to its end with nothing written, and the verb begins.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import msgspec

from packhorse.stores.redis.prelude import Prelude

PRELUDE = (
    "call",
    "basics",
    "asks",
    "mirrors",
    "rows",
    "places",
    "records",
    "streams",
    "ends",
    "births",
    "effects",
    "mending",
)
_PACKAGE = "packhorse.stores.redis"
_ARGUMENTS = re.compile(r"^-- args: (.+)$", re.MULTILINE)
_BORDER = re.compile(r"\b(commit|conclude)\w*\(")
_STEP = "-- the step\n"


class Parameter(msgspec.Struct, frozen=True):
    """One argument of a script; with a width it is a list of rows."""

    name: str
    width: int = 0

    @property
    def binding(self) -> str:
        """The line of Lua that makes it a local."""
        return f"local {self.name} = " + (f"rows({self.width})" if self.width else "argument()")


class Script(msgspec.Struct, frozen=True, dict=True):
    """One verb: its text with the prelude, and how to call it."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    writes: bool

    @cached_property
    def sha(self) -> str:
        """By what the server knows the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def arguments(self, given: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the header."""
        if len(given) != len(self.parameters):
            raise TypeError(f"{self.name} takes {[parameter.name for parameter in self.parameters]}, not {list(given)}")
        values: list[Any] = []
        for parameter in self.parameters:
            value = given[parameter.name]
            if parameter.width:
                values.append(len(value) // parameter.width)
                values += value
            else:
                values.append(value)
        return values


class Scripts:
    """All scripts by name. Another text in place of ``call.lua`` watches or disturbs every command they send."""

    def __init__(self, call: str | None = None) -> None:
        folder = files(_PACKAGE) / "lua"
        parts = {name: (folder / "prelude" / f"{name}.lua").read_text(encoding="utf-8") for name in PRELUDE}
        if call is not None:
            parts["call"] = call
        self._prelude = Prelude(parts.values())
        verbs = {
            path.name.removesuffix(".lua"): path.read_text(encoding="utf-8")
            for path in folder.iterdir()
            if path.name.endswith(".lua")
        }
        self._short = {
            path.name.removesuffix(".lua"): path.read_text(encoding="utf-8") for path in (folder / "plain").iterdir()
        }
        self._migrate = verbs["migrate"]
        self._scripts = {name: self._script(name, verb) for name, verb in verbs.items()}

    def __getitem__(self, name: str) -> Script:
        return self._scripts[name]

    @property
    def names(self) -> frozenset[str]:
        """Every script there is."""
        return frozenset(self._scripts)

    def with_step(self, text: str) -> Script:
        """The script that takes one step of the layout."""
        return self._script("migrate", self._migrate.replace(_STEP, text))

    def _script(self, name: str, verb: str) -> Script:
        parameters = tuple(_parameter(word) for header in _ARGUMENTS.findall(verb) for word in header.split())
        text = self._bound(parameters, verb)
        if short := self._short.get(name):
            # The whole verb is a function that is not even set up unless the short way leads to it.
            text = f"{self._bound(parameters, short)}return (function()\n{text}\nend)()\n"
        return Script(name, text, parameters, bool(_BORDER.search(verb)))

    def _bound(self, parameters: tuple[Parameter, ...], verb: str) -> str:
        """A verb behind what it needs of the prelude and the locals that are its arguments."""
        body = "\n".join((*(parameter.binding for parameter in parameters), verb))
        return self._prelude.for_verb(body) + body


@cache
def shipped() -> Scripts:
    """The scripts as they are, read once."""
    return Scripts()


def _parameter(word: str) -> Parameter:
    name, _, width = word.partition(":")
    return Parameter(name, int(width or 0))
