"""The thread between a supervisor and one of its workers: a pair of sockets, one end in each process.

The worker writes a byte when it is ready. When either process is gone, the other one reads the end of the file.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from packhorse.cli import exits

VARIABLE = "PACKHORSE_LIFELINE"  # number of the worker, and of its end of the pair
READY = b"R"


class Lifeline:
    """The end that a worker holds."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)

    def ready(self) -> None:
        """Tell the supervisor that this worker works."""
        with suppress(OSError):
            self._socket.send(READY)

    def watch(self, gone: Callable[[], None], patience: float) -> None:
        """Call ``gone`` on the running loop when the supervisor is gone, and end this process if that does not."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop, gone, patience), name="lifeline", daemon=True).start()

    def _wait(self, loop: asyncio.AbstractEventLoop, gone: Callable[[], None], patience: float) -> None:
        with suppress(OSError):
            while self._socket.recv(1):
                pass
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(gone)
        threading.Event().wait(patience)
        os._exit(exits.FAILED)


def held() -> Lifeline | None:
    """The lifeline of this process, if it was started by a supervisor. It is not handed on to processes it starts."""
    said = os.environ.pop(VARIABLE, None)
    if said is None:
        return None
    number, _, descriptor = said.partition(":")
    return Lifeline(int(number), int(descriptor))
