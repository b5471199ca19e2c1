"""The child process: runs one attempt at a time for a worker, as ``python -m packhorse.engine.executors.child``.

Its arguments are the origin of its tasks (``module:attribute``) and two inherited descriptors: the channel to the worker,
and the lifeline, on which nothing is ever sent and which ends with the worker. The main thread runs the attempts, a
second one listens. The child never outlives its worker, and takes with it whatever it started in its process group.
"""

import asyncio
import contextvars
import fcntl
import importlib
import inspect
import os
import queue
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn

from packhorse.engine.attempt import Attempt
from packhorse.engine.attempt_runner import AttemptRunner
from packhorse.engine.executors import frames
from packhorse.engine.judge import Cause
from packhorse.engine.observed_runner import ContinuedRunner
from packhorse.engine.registry import Registry
from packhorse.errors import ConfigError, PayloadTooLarge
from packhorse.model.clock import SYSTEM
from packhorse.model.codec import Codec
from packhorse.model.lease import Settlement
from packhorse.model.randomness import SYSTEM_RANDOMNESS
from packhorse.telemetry.integration import Integrations

READ_BYTES = 1 << 18


class Channel:
    """The child's end of the channel. Frames of different threads do not mix; what comes from an ended attempt is dropped."""

    def __init__(self, descriptor: int, lifeline: int) -> None:
        self._lifeline = lifeline
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._sending = threading.Lock()
        self._pid = os.getpid()
        self.running: Attempt | None = None

    def receive(self) -> Iterator[frames.Frame]:
        """What the worker says, until it is gone."""
        unpacker = frames.Unpacker()
        while data := self._socket.recv(READ_BYTES):
            yield from unpacker.feed(data)

    def send(self, frame: frames.Frame) -> None:
        """Say something."""
        self._send(frames.pack(frame))

    def progress(self, attempt: Attempt, data: bytes) -> None:
        """Tell how far the running attempt is, from any thread."""
        if self.running is not attempt:
            return
        with self._sending:
            if self.running is attempt:
                self._socket.sendall(frames.pack(frames.ProgressFrame(data)))

    def emit(self, attempt: Attempt) -> None:
        """Have written what the running attempt wants written now, from any thread."""
        if self.running is not attempt:
            return
        with self._sending:
            while self.running is attempt and (effects := attempt.take_emitted()):
                self._socket.sendall(frames.pack(frames.emitted(effects)))

    def end(self, packed: bytes) -> None:
        """Say how the running attempt ended."""
        self.running = None
        self._send(packed)

    def _send(self, packed: bytes) -> None:
        with self._sending:
            try:
                self._socket.sendall(packed)
            except OSError:
                self.die()

    def leave(self) -> None:
        """After a fork, in the new process: the channel is not its own."""
        self.running = None
        self._socket.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1  # the number may soon mean something else, also to forks of the fork

    def die(self) -> NoReturn:
        """End at once with the whole process group; a fork that strayed here ends alone."""
        if os.getpid() == self._pid == os.getpgrp():
            os.killpg(self._pid, signal.SIGKILL)
        os._exit(1)


class ChildRunner:
    """Runs attempts in the main thread: functions as they are, coroutines on one loop that stays."""

    def __init__(self, channel: Channel) -> None:
        self.registry = Registry()
        self._channel = channel
        self._runner = AttemptRunner(codec=Codec(), middleware=(), clock=SYSTEM, chance=SYSTEM_RANDOMNESS)
        self._loop = asyncio.Runner()
        self._task: asyncio.Task[Any] | None = None
        self._calls: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()

    def load(self, origin: str) -> None:
        """Take the tasks and the integrations of what ``module:attribute`` names."""
        self.registry, integrations = load(origin)
        if integrations:
            self._runner = ContinuedRunner(
                integrations, codec=Codec(), middleware=(), clock=SYSTEM, chance=SYSTEM_RANDOMNESS
            )

    # -- done in the listening thread

    def listen(self, received: Iterator[frames.Frame]) -> None:
        """Hear what the worker says, and die with it."""
        try:
            for frame in received:
                self._hear(frame)
        finally:
            self._channel.die()

    def _hear(self, frame: frames.Frame) -> None:
        match frame:
            case frames.CallFrame(lease, left):
                entry = self.registry.find(lease.task, lease.queue)
                if entry is None:
                    self._channel.send(frames.Unknown())
                    return
                attempt = Attempt(lease, entry)
                attempt.started_at = SYSTEM.steady()
                attempt.write_progress, attempt.write_effects = self._channel.progress, self._channel.emit
                attempt.deadline = None if left is None else attempt.started_at + left
                self._channel.running = attempt
                self._channel.send(frames.Begun())
                self._calls.put(attempt)
            case frames.Stop(cause):
                self._stop(cause)
            case frames.Quit():
                self._calls.put(None)

    def _stop(self, cause: Cause) -> None:
        attempt = self._channel.running
        if attempt is None:
            return
        attempt.stop_cause = cause
        task = self._task  # looked at after the cause is set: a task that begins later looks at the cause itself
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    # -- done in the main thread

    def serve(self) -> None:
        """Run calls as they come, until a Quit frame arrives."""
        while (attempt := self._calls.get()) is not None:
            self._answer(attempt, self._run(attempt))
            del attempt  # what an attempt leaves behind goes before the next one comes
        self._loop.close()

    def _run(self, attempt: Attempt) -> Settlement | None:
        if not _asynchronous(attempt.entry.call):
            return contextvars.copy_context().run(self._runner.run_here, attempt)
        try:
            return self._loop.run(self._run_on_loop(attempt), context=contextvars.copy_context())
        except BaseException as error:  # noqa: BLE001 - the attempt stopped or closed the loop it ran on
            self._loop = asyncio.Runner()
            return self._runner.judged(attempt, error)

    async def _run_on_loop(self, attempt: Attempt) -> Settlement | None:
        self._task = asyncio.current_task()
        try:
            return await self._runner.run(attempt)
        finally:
            self._task = None

    def _answer(self, attempt: Attempt, settlement: Settlement | None) -> None:
        _flush()
        try:
            packed = frames.pack(frames.settled(settlement, memory()))
        except PayloadTooLarge as error:
            packed = frames.pack(frames.settled(self._runner.judged(attempt, error), memory()))
        self._channel.end(packed)


def _asynchronous(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _flush() -> None:
    # What an attempt printed is seen when it ends, also where output is a file, and is not lost if the child is killed.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, gone, or replaced by the attempt
            pass


def memory() -> int:
    """How many bytes of memory this process has now; where the system does not tell, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def load(origin: str) -> tuple[Registry, Integrations | None]:
    """The registry (with the integrations of its app) that ``module:attribute`` names or that is the ``registry`` of what it names.

    Tasks may stand in more modules, named after the first and loaded as well: ``module,module:attribute``.
    """
    modules, _, attribute = origin.partition(":")
    first, *_ = [importlib.import_module(module) for module in modules.split(",")]
    found: object = reduce(getattr, attribute.split("."), first)
    registry = found if isinstance(found, Registry) else getattr(found, "registry", None)
    if not isinstance(registry, Registry):
        raise ConfigError(f"{origin!r} is not a registry and has none: name the app as module:attribute")
    return registry, getattr(found, "integrations", None)


def _tie(lifeline: int) -> None:
    """Have the kernel kill this process group when the worker is gone, whatever its threads are doing then.

    The listening thread would notice too, but not while native code holds the interpreter.
    """
    os.set_inheritable(lifeline, False)
    setsig = getattr(fcntl, "F_SETSIG", None)
    if setsig is None or os.getpgrp() != os.getpid():
        return
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, setsig, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:  # a kernel that lacks it
        pass


def _nothing(_number: int, _frame: object) -> None:
    pass


def _disregard(channel: Channel) -> None:
    """The worker decides when its children end: signals sent to everybody are left to it, here but not in descendants."""
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number in usual:
        signal.signal(number, _nothing)  # not SIG_IGN, which programs started here would inherit

    def forked() -> None:
        channel.leave()
        for number, handler in usual.items():
            if signal.getsignal(number) is _nothing:
                signal.signal(number, handler)

    os.register_at_fork(after_in_child=forked)


def _settle_in(start: frames.Start) -> None:
    """Find modules where the worker finds them."""
    sys.path[:] = start.path
    os.environ.pop("PYTHONPATH", None)
    if start.inherited is not None:
        os.environ["PYTHONPATH"] = start.inherited


def main(origin: str, descriptor: int, lifeline: int) -> None:
    """Serve a worker until it says quit or is gone."""
    _tie(lifeline)
    channel = Channel(descriptor, lifeline)
    _disregard(channel)
    received = channel.receive()
    match next(received, None):
        case frames.Start() as start:
            _settle_in(start)
        case _:
            channel.die()
    runner = ChildRunner(channel)
    threading.Thread(target=runner.listen, args=(received,), name="packhorse-channel", daemon=True).start()
    try:
        runner.load(origin)
    except BaseException:  # noqa: BLE001 - a module may even exit while it is imported; the worker gets the error
        channel.send(frames.Ready(traceback.format_exc().encode("utf-8", "replace").decode()))
    else:
        channel.send(frames.Ready())
        runner.serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
