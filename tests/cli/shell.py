"""Commands as people run them: real processes in a folder of their own, with or without a terminal."""

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import IO, Any, NamedTuple

from packhorse import App

PATIENCE = 30
COMMAND = (sys.executable, "-m", "packhorse")
SHOP = """
import asyncio
import os
import time
from packhorse import App

app = App()


@app.task(name="add")
async def add(a: int, b: int) -> int:
    return a + b


@app.task(name="greet", queue="letters")
async def greet(name: str, times: int = 1) -> str:
    return name * times


@app.task(name="fail", attempts=1)
async def fail(why: str) -> None:
    raise ValueError(why)


@app.task(name="sleep")
async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.task(name="linger")
async def linger() -> None:
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)


@app.task(name="hold")
def hold(seconds: float) -> None:
    time.sleep(seconds)


@app.task(name="block")
async def block(seconds: float) -> None:
    time.sleep(seconds)


@app.task(name="pid")
async def pid() -> int:
    return os.getpid()
"""


class Ended(NamedTuple):
    """A command that has ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as one JSON document."""
        assert self.out, self.err
        return json.loads(self.out)


class Shell:
    """A folder to work in, and the variables of the environment that commands see."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PACKHORSE_")}
        self.environment = {**kept, **variables}
        self._started: list[Program] = []

    def write(self, name: str, text: str) -> None:
        """Put a file into the folder."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def run(self, *arguments: str, **variables: str) -> Ended:
        """Run a command to its end, without a terminal."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def enqueue(self, task: str, **data: Any) -> str:
        """Store a job for a task of the shop, quicker than a command can; answers its id."""
        default = f"sqlite:///{self.folder / 'packhorse.db'}"
        async with App(self.environment.get("PACKHORSE_URL", default)) as app:
            return (await app.queue("default").enqueue(task, data)).id

    def start(self, *arguments: str, **variables: str) -> "Program":
        """Start a command that goes on, without a terminal."""
        return self._added(Program(self, arguments, variables))

    def terminal(self, *arguments: str, **variables: str) -> "Terminal":
        """Start a command on a terminal of its own."""
        made = Terminal(self, arguments, variables)
        self._started.append(made)
        return made

    def _added(self, program: "Program") -> "Program":
        self._started.append(program)
        return program

    def end(self) -> None:
        """Leave nothing running."""
        for program in self._started:
            program.close()


class Program:
    """A command that goes on; what it writes is kept in a file."""

    def __init__(self, shell: Shell, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
        self._command, self._cwd = [*COMMAND, *arguments], shell.folder
        self._environment = {**shell.environment, **variables}
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._file = self._cwd / f"output-{id(self)}"
        with self._file.open("wb") as out:
            return self._popen(out)

    def _popen(self, out: int | IO[bytes], **more: Any) -> "subprocess.Popen[bytes]":
        stdin = more.pop("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            self._command, cwd=self._cwd, env=self._environment, stdin=stdin, stdout=out, stderr=out, **more
        )

    @property
    def text(self) -> str:
        """What it has written so far."""
        return self._file.read_text()

    async def until(self, words: str, count: int = 1) -> str:
        """Wait until it has written these words so often; answers all it has written."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self.text.count(words) < count:
                    assert self.process.poll() is None or self.text.count(words) >= count, self.text
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{words!r} never came: {self.text}") from None
        return self.text

    async def ended(self) -> int:
        """Wait for its end; answers its exit code."""
        async with asyncio.timeout(PATIENCE):
            while self.process.poll() is None:
                assert self.text is not None  # a terminal that nobody reads would hold it up
                await asyncio.sleep(0.01)
        return int(self.process.returncode)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Kill it if it still lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Terminal(Program):
    """A command on a terminal: it sees keys, and everything it draws is seen."""

    def _start(self) -> "subprocess.Popen[bytes]":
        self._seen = b""
        self._mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        os.set_blocking(self._mine, False)
        try:
            return self._popen(
                its,
                stdin=its,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
            )
        finally:
            os.close(its)

    @property
    def text(self) -> str:
        """What it has drawn so far."""
        try:
            while data := os.read(self._mine, 1 << 16):
                self._seen += data
        except (BlockingIOError, OSError):  # nothing now, or nobody is there any more
            pass
        return self._seen.decode(errors="replace")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._mine, keys.encode())

    def close(self) -> None:
        super().close()
        os.close(self._mine)
