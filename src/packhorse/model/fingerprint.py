"""Fingerprints of failures: the same for failures with the same cause, on every machine and in every release.

A fingerprint is made of the task, the class of the exception and the innermost function of the user's code. Messages,
line numbers and folders are left out: they differ between failures with the same cause.
"""

import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from traceback import walk_tb
from typing import NamedTuple

from packhorse.model import limits
from packhorse.model.exception_text import kind, members, traceback_of

FINGERPRINT_MAX = 64  # characters of a fingerprint that a task gives itself; a longer one is hashed
DIGEST_BYTES = 8
LIBRARY_MARKS = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ")


class Frame(NamedTuple):
    """A call in a traceback: the function with its module, and the file it is in."""

    function: str
    file: str


def _folders() -> tuple[str, ...]:
    standard = sysconfig.get_path("stdlib")
    return tuple(_slashes(str(folder)) + "/" for folder in (Path(__file__).parents[1], standard))


def _slashes(file: str) -> str:
    return file.replace("\\", "/")


def users(file: str, folders: Sequence[str]) -> bool:
    """Whether a file belongs to the user's code: it is no installed package, and not in these folders."""
    path = _slashes(file)
    return not any(mark in path for mark in LIBRARY_MARKS) and not path.startswith(tuple(folders))


NOT_USERS = _folders()  # of Packhorse and of Python, wherever they are on this machine


def innermost(frames: Iterable[Frame], folders: Sequence[str] = NOT_USERS) -> str:
    """Give the innermost function of the user's code; without any, the innermost of all, and without frames nothing."""
    last = found = ""
    for frame in frames:
        last = frame.function
        if users(frame.file, folders):
            found = frame.function
    return found or last


def frames_of(error: BaseException) -> Iterator[Frame]:
    """Give the calls that led to an exception, the innermost last."""
    for frame, _ in walk_tb(traceback_of(error)):
        module = frame.f_globals.get("__name__")
        name = frame.f_code.co_qualname
        yield Frame(f"{module}.{name}" if isinstance(module, str) else name, frame.f_code.co_filename)


def cause(error: BaseException) -> BaseException:
    """Give the first exception inside nested groups; an exception that is no group is its own cause."""
    while inner := members(error):
        error = inner[0]
    return error


def fingerprint(task: str, kind: str, frame: str = "") -> str:
    """Hash what failures with the same cause have in common.

    For a death without a failure, ``kind`` is the reason.
    """
    return _hashed(task, kind, frame)


def described(task: str, error: BaseException, kind_of_failure: str) -> tuple[str, str]:
    """Give the fingerprint of a live exception, and its innermost function of the user's code."""
    first = cause(error)
    frame = innermost(frames_of(first)) or innermost(frames_of(error))
    names = kind_of_failure if first is error else f"{kind_of_failure} {kind(first)}"
    return fingerprint(task, names, frame), frame


def chosen_fingerprint(text: str) -> str:
    """Make a fingerprint of what a task gives: short printable text stays as it is, any other is hashed."""
    fits = (
        text.isprintable() and 0 < len(text) <= FINGERPRINT_MAX and len(text.encode("utf-8", "replace")) <= limits.NAME
    )
    return text if fits else _hashed(text)


def _hashed(*words: str) -> str:
    digest = sha256()
    for word in words:
        data = word.encode("utf-8", "replace")
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.hexdigest()[: 2 * DIGEST_BYTES]
