"""The worker's end of the channel to one child process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from packhorse.engine.attempt import Attempt
from packhorse.engine.executors import frames
from packhorse.errors import JobError, PackhorseError
from packhorse.model.clock import Clock
from packhorse.model.lease import Lease

Answer = frames.Settled | frames.Unknown


class ChildDied(JobError):
    """The child process died in the middle of an attempt; ``begun`` is false if the call had not reached it."""

    def __init__(self, pid: int, how: str, *, begun: bool) -> None:
        self.pid, self.begun = pid, begun
        super().__init__(
            f"The child process {pid} that ran the attempt {how}: "
            "look for a crash in native code, a call of os._exit, or too little memory"
        )


class ChildNotStarted(PackhorseError):
    """A child process did not come as far as taking calls; the next start is tried after the delay (microseconds)."""

    def __init__(self, origin: str, why: str, delay: int = 0) -> None:
        self.origin, self.why, self.delay = origin, why, delay
        super().__init__(f"No child process runs {origin!r}: {why}")


class ChildProcess(asyncio.Protocol):
    """One child process, from before its start until it is reaped. It is gone when it was reaped and its channel has ended."""

    def __init__(self, origin: str, clock: Clock, left: Callable[["ChildProcess"], None]) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.jobs = 0
        self.memory = 0
        self.leaving = ""
        self.death: ChildDied | None = None
        self.ready: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._origin, self._clock, self._left = origin, clock, left
        self._loop = loop
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._lifeline = -1
        self._code: int | None = None
        self._unseen = False
        self._unpacker = frames.Unpacker()
        self._patience: asyncio.Task[None] | None = None
        self._attempt: Attempt | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._begun = False

    @property
    def lease(self) -> Lease | None:
        """The attempt it is running, or was when it died."""
        return None if self._attempt is None else self._attempt.lease

    @property
    def free(self) -> bool:
        """Whether it can take a call."""
        return self.ready.done() and self._attempt is None and not self.leaving and not self.gone.done()

    # -- start and end

    async def start(self, path: tuple[str, ...], folder: Path, limit: int) -> None:
        """Start the process and wait until it can take calls, at most so long."""
        try:
            self._process, channel, self._lifeline = _spawn(self._origin, path, folder)
        except Exception as error:
            self._end()
            raise ChildNotStarted(self._origin, f"the system refused to start it: {error}") from error
        self.pid = self._process.pid
        try:
            threading.Thread(target=self._watch, name=f"packhorse-child-{self.pid}", daemon=True).start()
            await self._loop.create_unix_connection(lambda: self, sock=channel)
        except Exception as error:
            channel.close()
            self.leaving = "the system refused what it needs"
            self._reap()
            raise ChildNotStarted(self._origin, f"the system refused what it needs: {error}") from error
        self.send(frames.Start(path, os.environ.get("PYTHONPATH")))
        self._insist(limit, "loading took too long")
        await self.ready

    def quit(self, patience: int, why: str) -> None:
        """Have it end in an orderly way, and kill it if that takes longer than so."""
        self.leaving = self.leaving or why
        self.send(frames.Quit())
        self._insist(patience, why)

    def kill(self, why: str) -> None:
        """Kill it and its whole process group."""
        self.leaving = self.leaving or why
        if self._process is None:
            self._end()
        elif self._code is None:
            _kill_group(self.pid)

    def _insist(self, patience: int, why: str) -> None:
        async def wait() -> None:
            await self._clock.sleep(patience)
            self.kill(why)

        self._relax()
        self._patience = self._loop.create_task(wait())

    def _relax(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _watch(self) -> None:
        """In a thread of its own: wait for the end of the process, and leave reaping to the loop.

        Until it is reaped its number belongs to no other process, so its group can be killed without a second look.
        """
        assert self._process is not None
        if hasattr(os, "waitid"):
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # SIGCHLD is ignored: the system reaps children, and does not say how they ended
                self._unseen = True
        else:
            self._process.wait()
        try:
            self._loop.call_soon_threadsafe(self._reap)
        except RuntimeError:  # the loop was closed before its children
            _kill_group(self.pid)
            self._process.wait()

    def _reap(self) -> None:
        assert self._process is not None
        _kill_group(self.pid)
        self._code = self._process.wait()
        self._look_whether_gone()

    def connection_lost(self, _error: Exception | None) -> None:
        """The channel has ended, and with it the use of the child, should it still be there."""
        self._transport = None
        if not self.leaving and self._code is None:
            _kill_group(self.pid)
        self._look_whether_gone()

    def _look_whether_gone(self) -> None:
        if self._code is not None and self._transport is None:
            self._end()

    def _end(self) -> None:
        self._relax()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        died = ChildDied(self.pid, self._how(), begun=self._begun)
        if not self.ready.done():
            self.ready.set_exception(ChildNotStarted(self._origin, f"it {self._how()}, and had not loaded it yet"))
            self.ready.exception()  # waiters get it; mark it as retrieved if there are none
        elif not self.leaving:
            self.death = died
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(died)
            self._answer.exception()
        if not self.gone.done():
            self.gone.set_result(None)
            self._left(self)

    def _how(self) -> str:
        if self.leaving:
            return f"was killed: {self.leaving}"
        if self._unseen:
            return "ended, and how is not known because SIGCHLD is ignored"
        code = 0 if self._code is None else self._code
        if code >= 0:
            return f"ended with exit code {code}"
        names = {number.value: number.name for number in signal.Signals}
        return f"was ended by {names.get(-code, f'signal {-code}')}"

    # -- talking

    def call(self, call: frames.CallFrame, attempt: Attempt) -> asyncio.Future[Answer]:
        """Have it run an attempt."""
        self._answer = self._loop.create_future()
        self._attempt, self._begun = attempt, False
        self.jobs += 1
        answer = self._answer
        if self.gone.done():
            self._end()
        self.send(call)
        return answer

    def send(self, frame: frames.Frame) -> None:
        """Say something; what died does not hear it, and says so by itself."""
        if self._transport is not None:
            self._transport.write(frames.pack(frame))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The channel is connected."""
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """A piece of what the child says."""
        try:
            for frame in self._unpacker.feed(data):
                self._hear(frame)
        except frames.BadFrame as error:
            self.kill(str(error))

    def _hear(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Ready(error) if not self.ready.done():
                self._relax()
                if error:
                    gist = error.rstrip().rpartition("\n")[2]
                    self.ready.set_exception(ChildNotStarted(self._origin, f"it cannot load it: {gist}\n{error}"))
                    self.kill("it cannot load its tasks")
                else:
                    self.ready.set_result(None)
            case frames.Begun():
                self._begun = True
            case frames.ProgressFrame(data):
                if self._attempt is not None and self._attempt.write_progress is not None:
                    self._attempt.write_progress(self._attempt, data)
            case frames.Emitted():
                if self._attempt is not None:
                    self._attempt.emit(frames.wanted(frame))
            case frames.Settled() | frames.Unknown():
                self._settle(frame)

    def _settle(self, frame: Answer) -> None:
        self._attempt = None
        if isinstance(frame, frames.Settled):
            self.memory = frame.memory
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)
        self._answer = None


def _spawn(origin: str, path: tuple[str, ...], folder: Path) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """A process with our ends of the channel and of the lifeline."""
    with ExitStack() as failed, ExitStack() as done:
        channel, theirs = socket.socketpair()
        failed.callback(channel.close)
        done.callback(theirs.close)
        ending, lifeline = os.pipe()
        failed.callback(os.close, lifeline)
        done.callback(os.close, ending)
        # With -P it does not look for modules in the working directory before those of Python itself.
        command = [sys.executable, "-P", "-m", "packhorse.engine.executors.child"]
        process = subprocess.Popen(
            [*command, origin, str(theirs.fileno()), str(ending)],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path),
            },  # to find this package; the path follows in a Start frame
            pass_fds=(theirs.fileno(), ending),
            start_new_session=True,
        )
        failed.pop_all()
    return process, channel, lifeline


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nobody left; macOS says the latter of a group of zombies
        pass
