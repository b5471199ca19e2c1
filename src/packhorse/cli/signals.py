"""Hearing the signals that end a process, in time even if its loop is busy."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from packhorse.cli import exits

# SIGHUP: the terminal was closed. Under nohup it is ignored, and stays so.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def hear_early() -> None:
    """End at SIGTERM while nothing is begun: the first process of a container does not, unless it says so."""
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(exits.STOPPED + number))  # noqa: ARG005


@contextmanager
def hearing(
    loop: asyncio.AbstractEventLoop, stop: Callable[[signal.Signals], None], last: Callable[[], None] | None = None
) -> Iterator[None]:
    """Call ``stop`` on the loop for each signal; the third one ends the process at once, after ``last``."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        heard.append(number)
        if len(heard) > 2:
            if last is not None:
                last()
            os._exit(exits.STOPPED + number)
        with suppress(RuntimeError):  # the loop is closed: this is the end already
            loop.call_soon_threadsafe(stop, signal.Signals(number))

    before: dict[int, Any] = {}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
