"""What commands print: tables and sentences for people, JSON for programs."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from packhorse.cli import exits
from packhorse.cli.frame import Trouble
from packhorse.cli.output import json_text, writing
from packhorse.model.printable import printable

WIDE = 10_000  # what is not a terminal has no edge
WHOLE = ("id", "newest")  # columns of ids, which people copy
BROKEN = 24  # what a column that can be broken must at least have
GAP = 3  # between two columns


class Screen:
    """Where a command prints: for people, or as JSON."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.console = console()

    def show(self, value: Any, draw: Callable[[], RenderableType]) -> None:
        """Print one thing or one list: the value as one JSON document, or what is drawn of it."""
        if self.json:
            document = json_text(msgspec.json.format(msgspec.json.encode(value), indent=2), sys.stdout)
            with writing(None if isinstance(value, list) else document):
                click.echo(document)
            return
        drawn = draw()
        with writing(drawn if isinstance(drawn, str) else None):
            self._print(drawn) if isinstance(drawn, str) else self.console.print(drawn)

    def line(self, value: Any, text: str) -> None:
        """Print one of many that come one after another: a line of JSON, or a line of text."""
        with writing():
            if self.json:
                click.echo(json_text(msgspec.json.encode(value), sys.stdout))
            else:
                self._print(text)

    def say(self, text: str) -> None:
        """A sentence for people; beside JSON it goes where it does no harm."""
        click.echo(printable(text), err=self.json)

    def _print(self, text: str) -> None:
        """Print text as it is: no line is broken that somebody may want to copy."""
        self.console.print(Text(printable(text, keep="\n")), soft_wrap=True)

    def gate(self, will: str, *, yes: bool) -> None:
        """Say what will happen (``3 jobs will be removed``), and go on only if it is wanted."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise Trouble(f"{will}. Say --yes to go on without being asked.", exits.USAGE)
        click.echo(f"{printable(will)}.", err=True)
        try:
            with _interruptible():
                agreed = click.confirm("Go on?", err=True)
        except click.Abort as error:  # Ctrl-C, or the end of the input
            click.echo(err=True)
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            agreed = False
        if not agreed:
            raise Trouble("Nothing was changed.")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question: an event loop would note it and wait for the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def console(*, stderr: bool = False) -> Console:
    """A console that writes plain text, in one piece, where there is no terminal."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = WIDE
    return made


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), spare: Sequence[str] = ()
) -> Table:
    """A table; columns named in ``right`` hold numbers.

    On a terminal that is too narrow, those named in ``spare`` are left out, one after the other.
    """
    drawn = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    cells = [[plain(cell) for cell in row] for row in rows]
    shown = _fitting(columns, cells, spare)
    for name in shown:
        whole = name in WHOLE
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=whole)
    for row in cells:
        drawn.add_row(*(Text(cell) for name, cell in zip(columns, row, strict=True) if name in shown))
    return drawn


def _fitting(columns: Sequence[str], cells: Sequence[Sequence[str]], spare: Sequence[str]) -> list[str]:
    """The columns that there is room for; long ones can be broken."""
    widths = {name: max(map(len, (name, *(row[place] for row in cells)))) for place, name in enumerate(columns)}
    shown, room = list(columns), console().width
    for name in spare:
        if sum((widths[each] if each in WHOLE else min(widths[each], BROKEN)) + GAP for each in shown) > room:
            shown.remove(name)
    return shown


def plain(value: object) -> str:
    """A value as people read it: times in UTC, nothing that a terminal would take for a command."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return printable(str(value))


def with_screen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--json`` and a ``screen`` that knows about it."""

    @click.option("--json", is_flag=True, help="Print JSON; times in UTC as ISO 8601.")
    @wraps(function)
    def command(*args: Any, json: bool, **options: Any) -> Any:
        return function(*args, screen=Screen(json=json), **options)

    return command


def with_yes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--yes``, for ``Screen.gate``."""
    return click.option("--yes", "-y", is_flag=True, help="Do it without asking.")(function)
