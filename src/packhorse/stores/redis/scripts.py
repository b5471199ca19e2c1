"""Load the scripts from their ``.lua`` files, one file for each verb.

The header of a script names the parts of the prelude it needs (``-- needs: call key``, see prelude.py) and its arguments
(``-- args: limit keep targets:1``). Python passes arguments by these names; the loader binds them to locals behind the
prelude. A plain name is one value. A name with a width is a list of rows, passed as one flat sequence and sent as the
number of rows and their values. Two values precede all others: the time, empty if the server's clock rules, and
whether events are recorded.

A verb may have a fast path for plain jobs in ``plain/``, under the same name and with the same arguments. The fast path
either answers, or writes nothing and lets the script of the verb run.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from packhorse.stores.redis.constants import Constants
from packhorse.stores.redis.prelude import Prelude, header

PRELUDE = (
    "call",
    "basics",
    "claims",
    "cache",
    "rows",
    "moves",
    "records",
    "streams",
    "ended",
    "create",
    "effects",
    "repair",
)
_PACKAGE = "packhorse.stores.redis"
_BORDER = re.compile(r"\b(commit|conclude)\w*\(")
_STEP = "-- the step\n"


class Parameter(msgspec.Struct, frozen=True):
    """An argument of a script; with a width it is a list of rows."""

    name: str
    width: int = 0

    @property
    def binding(self) -> str:
        """Return the line of Lua that binds it to a local."""
        return f"local {self.name} = " + (f"rows({self.width})" if self.width else "argument()")


class Script(msgspec.Struct, frozen=True, dict=True):
    """The script of a verb: its text with the prelude, and its parameters."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    writes: bool

    @cached_property
    def sha(self) -> str:
        """The checksum by which the server knows the script."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def arguments(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the values in the order of the header."""
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
    """All scripts by name; tests pass a text in place of ``call.lua`` to make commands fail."""

    def __init__(self, call: str | None = None) -> None:
        folder = files(_PACKAGE) / "lua"
        self._constants = Constants((folder / "prelude" / "constants.lua").read_text(encoding="utf-8"))
        parts = {name: self._constants.fill(text) for name, text in _texts(folder / "prelude").items()}
        if call is not None:
            parts["call"] = call
        self._prelude = Prelude(parts[name] for name in PRELUDE)
        verbs = _texts(folder)
        self._fast_paths = _texts(folder / "plain")
        self._migrate = verbs["migrate"]
        self._scripts = {name: self._script(name, verb) for name, verb in verbs.items()}

    def __getitem__(self, name: str) -> Script:
        return self._scripts[name]

    @property
    def names(self) -> frozenset[str]:
        """The names of all scripts."""
        return frozenset(self._scripts)

    def with_step(self, text: str) -> Script:
        """Return the script that takes a step of the layout."""
        return self._script("migrate", self._migrate.replace(_STEP, text))

    def _script(self, name: str, verb: str) -> Script:
        parameters = tuple(map(_parameter, header(verb, "args")))
        text = self._bound(parameters, verb)
        if fast_path := self._fast_paths.get(name):
            # The script of the verb is a function, so that it is set up only if the fast path does not answer.
            text = f"{self._bound(parameters, fast_path)}return (function()\n{text}\nend)()\n"
        return Script(name, text, parameters, bool(_BORDER.search(verb)))

    def _bound(self, parameters: tuple[Parameter, ...], verb: str) -> str:
        """Return a script behind its parts of the prelude and the locals of its arguments."""
        body = "\n".join((*(parameter.binding for parameter in parameters), self._constants.fill(verb)))
        needs = (*header(verb, "needs"), *(("arguments",) if parameters else ()))
        return self._prelude.for_script(needs) + body


@cache
def shipped() -> Scripts:
    """Return the scripts of this release, read once."""
    return Scripts()


def _texts(folder: Traversable) -> dict[str, str]:
    """Return the text of each file of Lua in a folder, by name."""
    return {
        path.name.removesuffix(".lua"): path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.name.endswith(".lua")
    }


def _parameter(word: str) -> Parameter:
    name, _, width = word.partition(":")
    return Parameter(name, int(width or 0))
