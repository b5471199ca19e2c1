"""Statements live in ``.sql`` files and are known by name.

A file holds one statement, named like the file, or several, each below a line ``-- name: the_name``.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable

_MARK = "-- name: "


class Statements:
    """The statements of a folder; ``{word}`` in them stands for what was given by that name."""

    def __init__(self, package: str, folder: str = "sql", **words: str) -> None:
        self._texts: dict[str, str] = {}
        for stem, text in texts(package, folder, **words).items():
            for name, statement in _named(stem, text):
                if name in self._texts:
                    raise ValueError(f"two statements of {package} are named {name}")
                self._texts[name] = statement
                setattr(self, name, statement)  # found without a call, at every use

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"there is no statement {name}")

    @property
    def names(self) -> frozenset[str]:
        """Every statement there is."""
        return frozenset(self._texts)


def texts(package: str, folder: str, **words: str) -> dict[str, str]:
    """The files of a folder, whole, by name and in order."""
    paths = sorted((path for path in (files(package) / folder).iterdir() if path.name.endswith(".sql")), key=_name)
    return {_name(path): _filled(path, words) for path in paths}


def _name(path: Traversable) -> str:
    return path.name.removesuffix(".sql")


def _filled(path: Traversable, words: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for word, meaning in words.items():
        text = text.replace("{" + word + "}", meaning)
    return text


def _named(stem: str, text: str) -> list[tuple[str, str]]:
    if _MARK not in text:
        return [(stem, text.strip())]
    parts = text.split(_MARK)[1:]
    return [(name.strip(), body.strip()) for name, _, body in (part.partition("\n") for part in parts)]
