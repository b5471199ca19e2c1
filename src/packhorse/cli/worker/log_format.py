"""Log lines of a command: plain text for people, JSON for programs."""

import logging
import sys
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.text import Text

from packhorse.cli.output import json_text
from packhorse.model import limits
from packhorse.model.clock import moment
from packhorse.model.printable import printable

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("plain", "json")

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_STYLES = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


class PlainFormatter(logging.Formatter):
    """``2026-01-31 12:00:00 INFO    worker started``, in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, followed by its traceback."""
        return printable(super().format(record), keep="\n\t")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        """Format the time of a record, to the second."""
        return moment(round(record.created * limits.SECOND)).strftime("%Y-%m-%d %H:%M:%S")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields of the record, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        line: dict[str, Any] = {
            "time": moment(round(record.created * limits.SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS and name not in line
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_text(msgspec.json.encode(line, enc_hook=str), sys.stderr)


class ConsoleHandler(logging.Handler):
    """Writes log lines above the status line of a console."""

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


def set_up_logging(level: str, form: str, console: Console | None) -> None:
    """Log to standard error, or above the status line of a console, unless the app set up logging itself."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    if has_own_logging():
        return
    handler = ConsoleHandler(console) if console is not None else logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else PlainFormatter())
    root.addHandler(handler)
