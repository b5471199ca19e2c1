"""The functions of this release as one set: installed in one step, called by name.

The files name no version. In the database every function and type of a set carries the prefix of the set, so a release
installs its set beside that of the release before, which running workers go on to call.
"""

import functools
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from packhorse.stores.sql.migrate import Migration
from packhorse.stores.sql.statements import Statements

NUMBER = 1  # add one in a release that changes a function: see docs/internals/postgres-functions.md
_STEP = re.compile(r"functions_(\d+)")


class FunctionSet:
    """The set of one namespace: its step of the layout, and the statements that call its entry points."""

    def __init__(self, package: str, statements: Statements, words: Mapping[str, str]) -> None:
        self._statements = statements
        self._prefix = words["set"]
        self._calls: dict[str, str] = {}
        plain = text = "\n".join(text for _, text in function_files(package))
        for word, meaning in words.items():
            text = text.replace("{" + word + "}", meaning)
        checksum = hashlib.sha256(plain.encode()).hexdigest()[:16]
        self.step = Migration(
            f"functions_{NUMBER}", f"{statements.drop_older_sets}\n\n{text}", checksum, compatible=True
        )

    def call(self, name: str, parameters: int) -> str:
        """Answer the statement that calls an entry point; always the same text, so that a driver prepares it once."""
        statement = self._calls.get(name)
        if statement is None:
            listed = ", ".join(f"${n}" for n in range(1, parameters + 1))
            statement = self._named(self._statements.call.replace("{parameters}", listed), name)
            self._calls[name] = statement
        return statement

    def call_with_text(self, name: str) -> str:
        """Answer the statement that calls an entry point with one text, and answers one, whatever the driver."""
        return self._named(self._statements.call_with_text, name)

    def _named(self, template: str, name: str) -> str:
        return template.replace("{function}", self._prefix + name)


def prefix(schema: str) -> str:
    """Answer what the names of this release's functions and types begin with."""
    return f"{schema}.f{NUMBER}_"


def is_older(step: str) -> bool:
    """Answer whether a step of the layout installed an older set than this release's."""
    found = _STEP.fullmatch(step)
    return found is not None and int(found[1]) < NUMBER


def is_newer(taken: Collection[str]) -> bool:
    """Answer whether a layout has newer sets than this release's, and has not, or no longer, this one."""
    found = [int(step[1]) for name in taken if (step := _STEP.fullmatch(name)) is not None]
    return NUMBER not in found and max(found, default=0) > NUMBER


@functools.cache
def function_files(package: str) -> tuple[tuple[str, str], ...]:
    """Answer the files of the set by their paths, each with its text; the types come first."""
    return tuple(_texts(files(package) / "functions", ""))


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda each: (each.is_dir(), each.name)):
        if each.is_dir():
            yield from _texts(each, f"{path}{each.name}/")
        elif each.name.endswith(".sql"):
            yield path + each.name, each.read_text(encoding="utf-8")
