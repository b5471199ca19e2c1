"""An exception as text, whatever it is: its texts may raise, be huge, or go round in circles.

Only types, messages, notes, places in the code and lines of source are written: never a variable or an argument.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from traceback import StackSummary, walk_tb
from types import FrameType, TracebackType
from typing import Any

from packhorse.model import limits
from packhorse.model.job import Failure, failure

CHAIN = 10  # exceptions that led to one another
MAX_EXCEPTIONS = 40  # exceptions in one text, groups included
HEAD, TAIL = 20, 40  # frames of one traceback
NOTES = 10

_CAUSED = "\nwhich was the cause of:\n\n"
_MEANWHILE = "\nand while that was being handled:\n\n"


def failure_of(error: BaseException) -> Failure:
    """The exception as the failure of an attempt."""
    return failure(kind(error), message(error), trace(error))


def kind(error: BaseException) -> str:
    """The class of an exception by module and name; those of the language have no module."""
    try:
        module, name = str(type(error).__module__), str(type(error).__qualname__)
    except BaseException:  # noqa: BLE001 - a metaclass may do anything
        return "unknown"
    return name if module == "builtins" else f"{module}.{name}"


def message(error: BaseException) -> str:
    """What an exception says, cut to what is kept of it."""
    try:
        return _cut(str(error))
    except BaseException as fault:  # noqa: BLE001 - its words are the user's code
        return f"(its text cannot be read: {kind(fault)})"


def trace(error: BaseException) -> str:
    """The exception with its traceback and with what led to it, oldest first."""
    formatter = _Formatter()
    formatter.add(error, "")
    return "".join(formatter.lines)


def members(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions of a group; none if it is no group."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    inner: tuple[BaseException, ...] = BaseExceptionGroup.__dict__["exceptions"].__get__(error)
    return inner


def traceback_of(error: BaseException) -> TracebackType | None:
    """The traceback of an exception, also where a subclass has hidden it."""
    found: TracebackType | None = _slot(error, "__traceback__")
    return found


class _Formatter:
    """Formats exceptions, each once and not too many."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seen: set[int] = set()

    def add(self, error: BaseException, indent: str) -> None:
        for each, joint in self._led_to(error):
            self._add_one(each, indent)
            self._add_text(joint, indent)

    def _led_to(self, error: BaseException | None) -> list[tuple[BaseException, str]]:
        links: list[tuple[BaseException, str]] = []
        joint = ""
        while error is not None and id(error) not in self.seen and len(links) < CHAIN:
            self.seen.add(id(error))
            links.append((error, joint))
            cause = _slot(error, "__cause__")
            joint = _MEANWHILE if cause is None else _CAUSED
            if cause is None and not _slot(error, "__suppress_context__"):
                cause = _slot(error, "__context__")
            error = cause
        return links[::-1]

    def _add_one(self, error: BaseException, indent: str) -> None:
        track = traceback_of(error)
        if track is not None:
            self._add_text("Traceback (most recent call last):\n" + "".join(_frames(track)), indent)
        words = message(error)
        self._add_text(f"{kind(error)}: {words}\n" if words else f"{kind(error)}\n", indent)
        for note in _notes(error):
            self._add_text(f"{note}\n", indent)
        inner = members(error)
        for number, member in enumerate(inner, 1):
            if len(self.seen) >= MAX_EXCEPTIONS:
                self._add_text(f"({len(inner) - number + 1} more)\n", indent)
                break
            self._add_text(f"{number} of {len(inner)}:\n", indent)
            self.add(member, indent + "  ")

    def _add_text(self, text: str, indent: str) -> None:
        self.lines.extend(indent + line for line in text.splitlines(keepends=True))


def _slot(error: BaseException, name: str) -> Any:
    # The language's own slot: a subclass may shadow the name with code of its own.
    return BaseException.__dict__[name].__get__(error)


def _notes(error: BaseException) -> list[str]:
    try:
        notes = getattr(error, "__notes__", ())
        given = islice(notes, NOTES) if isinstance(notes, list | tuple) else ()
        return [_cut(note) for note in given if isinstance(note, str)]
    except BaseException:  # noqa: BLE001 - looking may run the user's code
        return []


def _cut(text: str) -> str:
    # The slice of str itself: the text may be a subclass with slices of its own.
    return str.__getitem__(text, slice(limits.MESSAGE))


def _frames(track: TracebackType) -> list[str]:
    walk = walk_tb(track)
    head = list(islice(walk, HEAD))
    tail: deque[tuple[FrameType, int]] = deque(maxlen=TAIL)
    left = 0
    for frame in walk:
        left += 1
        tail.append(frame)
    gap = [f"  ({left - TAIL} more frames)\n"] if left > TAIL else []
    return [*_shown(head), *gap, *_shown(tail)]


def _shown(frames: Iterable[tuple[FrameType, int]]) -> list[str]:
    frames = list(frames)
    try:
        return StackSummary.extract(iter(frames)).format()
    except Exception:  # noqa: BLE001 - a loader of the user's own may fail to give the source
        return [f'  File "{at.f_code.co_filename}", line {line}, in {at.f_code.co_name}\n' for at, line in frames]
