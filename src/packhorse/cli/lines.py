"""Log lines of a command: plain ones for people, JSON for programs that read logs."""

import logging
import sys
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.text import Text

from packhorse.cli.output import json_text
from packhorse.jobs.view import moment
from packhorse.model import caps
from packhorse.model.printable import printable

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("plain", "json")

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_STYLES = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


class Plain(logging.Formatter):
    """``2026-01-31 12:00:00 INFO    worker started``, in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """A record as such a line, and below it the lines of its traceback."""
        return printable(super().format(record), keep="\n\t")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        """The moment of a record, to the second."""
        return moment(round(record.created * caps.SECOND)).strftime("%Y-%m-%d %H:%M:%S")


class Json(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, the fields of the record, ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as such a line."""
        line: dict[str, Any] = {
            "time": moment(round(record.created * caps.SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL and name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_text(msgspec.json.encode(line, enc_hook=str), sys.stderr)


class OnScreen(logging.Handler):
    """Writes above what a console keeps at its foot."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            self._console.print(Text(self.format(record), style=_STYLES.get(record.levelno, "")), soft_wrap=True)
        except Exception:  # noqa: BLE001 - as all handlers do
            self.handleError(record)


def has_own_logging() -> bool:
    """Whether the app has set up logging itself."""
    return bool(logging.getLogger().handlers)


def log_to(level: str, form: str, console: Console | None) -> None:
    """Log to the standard error output, or above the foot of a console, unless the app does it its own way."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    if has_own_logging():
        return
    handler = OnScreen(console) if console is not None else logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Plain())
    root.addHandler(handler)
