"""Print tables and sentences for people, or JSON for programs."""

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

from packhorse.cli import exit_codes
from packhorse.cli.command import CliError
from packhorse.cli.output import json_text, writing
from packhorse.model.printable import printable

FILE_WIDTH = 10_000  # columns of an output that is not a terminal: no line is broken
UNBROKEN = ("id", "newest")  # columns of ids, which people copy
MIN_COLUMN_WIDTH = 24  # of a column whose lines may be broken
COLUMN_GAP = 3


class Screen:
    """The output of a command: text for people, or JSON."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.console = console()

    def show(self, value: Any, draw: Callable[[], RenderableType]) -> None:
        """Print a value as one JSON document, or as what ``draw`` returns."""
        if self.json:
            document = json_text(msgspec.json.format(msgspec.json.encode(value), indent=2), sys.stdout)
            with writing(None if isinstance(value, list) else document):
                click.echo(document)
            return
        drawn = draw()
        with writing(drawn if isinstance(drawn, str) else None):
            self._print(drawn) if isinstance(drawn, str) else self.console.print(drawn)

    def line(self, value: Any, text: str) -> None:
        """Print one item of a stream: a line of JSON, or a line of text."""
        with writing():
            if self.json:
                click.echo(json_text(msgspec.json.encode(value), sys.stdout))
            else:
                self._print(text)

    def say(self, text: str) -> None:
        """Print a sentence for people: on standard error if standard output is JSON."""
        click.echo(printable(text), err=self.json)

    def _print(self, text: str) -> None:
        """Print text without breaking lines, so that people can copy it."""
        self.console.print(Text(printable(text, keep="\n")), soft_wrap=True)

    def confirm(self, will: str, *, yes: bool) -> None:
        """Print what will happen (``3 jobs will be removed``) and ask before going on, unless ``yes``."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise CliError(f"{will}. Use --yes to go on without being asked.", exit_codes.USAGE)
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
            raise CliError("Nothing was changed.")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question at once: an event loop would wait for the answer first."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def console(*, stderr: bool = False) -> Console:
    """Make a console; without a terminal it writes plain text and breaks no line."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = FILE_WIDTH
    return made


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), spare: Sequence[str] = ()
) -> Table:
    """Make a table; columns named in ``right`` are aligned right.

    On a terminal that is too narrow, columns named in ``spare`` are left out, in this order.
    """
    drawn = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    cells = [[plain(cell) for cell in row] for row in rows]
    shown = _fitting(columns, cells, spare)
    for name in shown:
        whole = name in UNBROKEN
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=whole)
    for row in cells:
        drawn.add_row(*(Text(cell) for name, cell in zip(columns, row, strict=True) if name in shown))
    return drawn


def _fitting(columns: Sequence[str], cells: Sequence[Sequence[str]], spare: Sequence[str]) -> list[str]:
    """Return the columns that fit the terminal; cells of long ones may be broken."""
    widths = {name: max(map(len, (name, *(row[place] for row in cells)))) for place, name in enumerate(columns)}
    shown, room = list(columns), console().width
    for name in spare:
        if (
            sum(
                (widths[each] if each in UNBROKEN else min(widths[each], MIN_COLUMN_WIDTH)) + COLUMN_GAP
                for each in shown
            )
            > room
        ):
            shown.remove(name)
    return shown


def plain(value: object) -> str:
    """Format a value for people: times in UTC, no terminal escapes."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return printable(str(value))


def with_screen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--json`` to a command and pass it a ``screen``."""

    @click.option("--json", is_flag=True, help="Print JSON; times in UTC as ISO 8601.")
    @wraps(function)
    def command(*args: Any, json: bool, **options: Any) -> Any:
        return function(*args, screen=Screen(json=json), **options)

    return command


def with_yes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--yes`` to a command, for ``Screen.confirm``."""
    return click.option("--yes", "-y", is_flag=True, help="Go on without asking.")(function)
