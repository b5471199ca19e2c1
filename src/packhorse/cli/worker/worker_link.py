"""The link between a supervisor and one of its workers: a pair of sockets, one end in each process.

The worker writes a byte when it is ready. When one process is gone, the other reads the end of the stream.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from packhorse.cli import exit_codes

VARIABLE = "PACKHORSE_WORKER_LINK"  # number of the worker, and file descriptor of its socket
READY = b"R"


class WorkerLink:
    """The worker's end of the link."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)

    def ready(self) -> None:
        """Tell the supervisor that this worker is ready."""
        with suppress(OSError):
            self._socket.send(READY)

    def watch(self, on_gone: Callable[[], None], timeout: float) -> None:
        """Call ``on_gone`` on the loop when the supervisor is gone; end the process ``timeout`` seconds later."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop, on_gone, timeout), name="worker-link", daemon=True).start()

    def _wait(self, loop: asyncio.AbstractEventLoop, on_gone: Callable[[], None], timeout: float) -> None:
        with suppress(OSError):
            while self._socket.recv(1):
                pass
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(on_gone)
        threading.Event().wait(timeout)
        os._exit(exit_codes.FAILED)


def take_link() -> WorkerLink | None:
    """Return the link of this process if a supervisor started it, and hide it from child processes."""
    value = os.environ.pop(VARIABLE, None)
    if value is None:
        return None
    number, _, descriptor = value.partition(":")
    return WorkerLink(int(number), int(descriptor))
