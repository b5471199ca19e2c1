"""Tracebacks as text, cut down to the user's code. A pure function of the text: old letters gain from it too."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from packhorse.model.fingerprint import NOT_USERS, users

_FRAME = re.compile(r'^(?P<indent>\s*)File "(?P<file>.*)", line \d+, in ')


def trimmed(text: str, folders: Sequence[str] = NOT_USERS) -> str:
    """Leave out frames of installed packages, of Python and of Packhorse; the last frame of a traceback stays if no other does."""
    kept: list[str] = []
    for is_frames, blocks in groupby(_blocks(text), key=lambda block: block[0] is not None):
        if not is_frames:
            kept += [lines for _, lines in blocks]
            continue
        frames = [(file or "", lines) for file, lines in blocks]
        own = [lines for file, lines in frames if users(file, folders)]
        kept += own or [frames[-1][1]]
    return "".join(kept)


def _blocks(text: str) -> Iterator[tuple[str | None, str]]:
    """Split a traceback into frames, each with its file and its lines of source, and the lines between them."""
    file: str | None = None
    indent, lines = 0, ""
    for line in text.splitlines(keepends=True):
        found = _FRAME.match(line)
        deeper = len(line) - len(line.lstrip()) > indent
        if file is not None and found is None and deeper:
            lines += line
            continue
        if lines:
            yield file, lines
        file, indent, lines = (found["file"], len(found["indent"]), line) if found else (None, 0, line)
    if lines:
        yield file, lines
