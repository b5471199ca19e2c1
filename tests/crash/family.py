"""Processes forked from a warmed parent: a fork costs a millisecond, a fresh Python a hundred.

The parent has neither threads nor an event loop: what needs one, also a mere look at the store, is done by a child.
Children die with the parent.
"""

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

PATIENCE = 60.0  # seconds for what takes one or two on a free machine
FAILED = 7
GLANCE = 0.004

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

Say = Callable[[bytes], int]
Life = Callable[[Say], Coroutine[Any, Any, object]]


class TooSlow(Exception):
    """Something that had to happen did not."""


class ChildProcess:
    """A forked process, and the pipe on which it speaks."""

    def __init__(self, pid: int, reader: int) -> None:
        self.pid = pid
        self._reader = reader
        self._status: int | None = None
        self._output = b""

    def begun(self) -> None:
        """Wait until it says something, or ends."""
        if not self._output and self.alive:
            ready, _, _ = select.select([self._reader], [], [], PATIENCE)
            if not ready:
                raise TooSlow("a process did not begin")
            self._output += os.read(self._reader, 1 << 16)

    def answer(self, within: float = PATIENCE) -> bytes:
        """All that it says until it ends."""
        deadline = time.monotonic() + within
        while select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            more = os.read(self._reader, 1 << 16)
            if not more:
                self.end(within)
                return self._output
            self._output += more
        raise TooSlow("a process did not answer")

    def send(self, number: int) -> None:
        """Send a signal, if it is still there to hear it."""
        if self.alive:
            os.kill(self.pid, number)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._gone(status)
        return self._status is None

    def kill(self) -> bool:
        """Kill it the hard way, and say whether that was what ended it."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._gone(os.waitpid(self.pid, 0)[1])
        return self.code == -signal.SIGKILL

    def stopped(self) -> None:
        """Wait until SIGSTOP has taken hold of it."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._gone(status)
            raise TooSlow(f"a process ended with {self.code} instead of being stopped")

    def end(self, within: float = PATIENCE) -> int:
        """Wait for its end and answer its exit code; a signal counts below zero."""
        until(lambda: not self.alive, "the end of a process", within)
        assert self.code is not None
        return self.code

    @property
    def code(self) -> int | None:
        """How it ended, if it did."""
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    def _gone(self, status: int) -> None:
        self._status = status
        os.close(self._reader)


def warm() -> None:
    """Be ready to be forked often: have loaded what children would load late, and leave it alone."""
    for store in ("sqlite", "redis", "postgres"):
        importlib.import_module(f"packhorse.stores.{store}.store")
    logging.getLogger("asyncpg").setLevel(logging.ERROR)  # it warns at length of each connection that a kill has cost
    gc.collect()
    gc.freeze()


def fork(life: Life) -> ChildProcess:
    """A process that lives until its life is over or it is killed."""
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        return ChildProcess(pid, reader)
    try:
        os.close(reader)
        if _LIBC is not None:
            _LIBC.prctl(1, signal.SIGKILL)
        if os.getppid() == parent:
            asyncio.run(_live(life, writer))
            threading._shutdown()  # type: ignore[attr-defined]  # as at the end of any program: a thread may keep it
            os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(FAILED)


async def _live(life: Life, writer: int) -> None:
    await life(lambda words: os.write(writer, words))


def ask(look: Callable[[], Coroutine[Any, Any, Any]], within: float = 3 * PATIENCE) -> Any:
    """What a look at the store has found, done by a child."""

    async def life(say: Say) -> None:
        data = json.dumps(await look()).encode()
        while data:  # a pipe takes so much at a time
            data = data[say(data) :]

    child = fork(life)
    try:
        data = child.answer(within)
    finally:
        child.kill()
    if child.code:
        raise RuntimeError(f"a look at the store failed with {child.code}")
    return json.loads(data)


def until(happened: Callable[[], object], what: str, within: float = PATIENCE) -> None:
    """Wait for something that happens elsewhere."""
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            raise TooSlow(f"waited {within:g} s for {what}")
        time.sleep(GLANCE)


@contextlib.contextmanager
def household() -> Iterator[list[ChildProcess]]:
    """Children that do not outlive the block."""
    living: list[ChildProcess] = []
    try:
        yield living
    finally:
        for child in living:
            child.kill()
