"""Settings: an argument, else the environment, else the default."""

import os
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import msgspec

from packhorse.errors import ConfigError

T = TypeVar("T")

FILE = "packhorse.db"


def setting(name: str, given: T | None, default: T) -> T:
    """The value of a setting; ``PACKHORSE_<NAME>`` is read if none was given."""
    if given is not None:
        return given
    variable = f"PACKHORSE_{name.upper()}"
    text = os.environ.get(variable)
    if text is None:
        return default
    kind: Any = str if default is None else type(default)
    try:
        return cast(T, msgspec.convert(text, kind, strict=False))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{variable}={text!r} is invalid: {error}") from error


def url(given: str | None) -> str:
    """The address of the store: what was given, ``PACKHORSE_URL``, or a file in the working directory."""
    return setting("url", given, f"sqlite:///{quote(str(Path.cwd() / FILE), errors='surrogateescape')}")
