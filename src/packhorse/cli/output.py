"""Write to standard output in any encoding, and report when it is full or closed."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from packhorse.cli import exit_codes
from packhorse.cli.command import CliError

WRITE_ERRORS = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def prepare() -> None:
    """Make the standard streams safe: replace closed ones, escape characters that they cannot encode."""
    if sys.stdout is None:  # closed: every write fails, and no other file takes its number
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextmanager
def writing(text: str | None = None) -> Iterator[None]:
    """Write to standard output. If that fails, report the reason and ``text`` on standard error."""
    try:
        yield
    except OSError as error:
        _give_up()
        if text is None and error.errno == errno.EPIPE:  # a reader such as `head` closed the pipe
            raise
        raise _lost(error, text) from None


def show_lost(error: OSError) -> int:
    """Report that standard output failed and return the exit code. Raise any other error again."""
    if error.filename is not None or error.errno not in WRITE_ERRORS:
        raise error
    _give_up()
    lost = _lost(error)
    lost.show()
    return lost.exit_code


def _lost(error: OSError, text: str | None = None) -> CliError:
    why = f"Standard output cannot be written: {error.strerror}."
    return CliError(why if text is None else f"{why} The output was:\n{text}", exit_codes.OUTPUT)


def _give_up() -> None:
    """Send further output to the null device, so that the flush at exit does not fail too."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def json_text(document: bytes, stream: TextIO) -> str:
    """Return a JSON document for a stream; escape what it cannot encode or a terminal cannot print."""
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
