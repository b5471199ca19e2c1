"""The standard output of a command: whatever encoding it has, and also when it is full or closed."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from packhorse.cli import exits
from packhorse.cli.frame import Trouble

WRITE_ERRORS = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def prepare() -> None:
    """Make the standard streams safe to use: one that is closed is replaced, no character is refused."""
    if sys.stdout is None:  # closed: every write fails, and no other file takes its number
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextmanager
def writing(said: str | None = None) -> Iterator[None]:
    """Write to the standard output. If that fails, ``said`` goes to the standard error output with the reason."""
    try:
        yield
    except OSError as error:
        _give_up()
        if said is None and error.errno == errno.EPIPE:  # a reader like `head` has seen enough
            raise
        raise _lost(error, said) from None


def show_lost(error: OSError) -> int:
    """Report that the standard output failed, and answer the exit code; any other error is raised again."""
    if error.filename is not None or error.errno not in WRITE_ERRORS:
        raise error
    _give_up()
    lost = _lost(error)
    lost.show()
    return lost.exit_code


def _lost(error: OSError, said: str | None = None) -> Trouble:
    why = f"Standard output cannot be written: {error.strerror}."
    return Trouble(why if said is None else f"{why} It was to say:\n{said}", exits.OUTPUT)


def _give_up() -> None:
    """Write the rest to nowhere, so that the end of the process does not fail as well."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def json_text(document: bytes, stream: TextIO) -> str:
    """A JSON document for a stream: what is not printable, or not in the stream's encoding, is escaped."""
    text, encoding = document.decode(), stream.encoding or "utf-8"
    if (text.isascii() or encoding.lower() == "utf-8") and text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or _shown(char, encoding) else json.dumps(char)[1:-1] for char in text)


def _shown(char: str, encoding: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return char.isprintable()
