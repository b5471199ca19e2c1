"""Handle the signals that end a process, also while its event loop is busy."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from packhorse.cli import exit_codes

# SIGHUP: the terminal was closed. If it is ignored (nohup), it stays ignored.
END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def exit_on_early_sigterm() -> None:
    """End the process at SIGTERM until ``handle_signals``: process 1 of a container ignores it by default."""
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(exit_codes.STOPPED + number))  # noqa: ARG005


@contextmanager
def handle_signals(
    loop: asyncio.AbstractEventLoop,
    stop: Callable[[signal.Signals], None],
    before_exit: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Call ``stop`` on the loop for each signal; the third one calls ``before_exit`` and ends the process."""
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        received.append(number)
        if len(received) > 2:
            if before_exit is not None:
                before_exit()
            os._exit(exit_codes.STOPPED + number)
        with suppress(RuntimeError):  # the loop is closed: the process is ending already
            loop.call_soon_threadsafe(stop, signal.Signals(number))

    before: dict[int, Any] = {}
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, receive)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
