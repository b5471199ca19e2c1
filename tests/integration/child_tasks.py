"""Tasks that child processes run in the tests, from well-behaved to hostile; and a worker to be killed."""

import asyncio
import contextvars
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packhorse.engine.attempt import Attempt, current_attempt
from packhorse.engine.context import Context, current
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.policy import Policy
from packhorse.engine.registry import Entry, Registry, Run
from packhorse.engine.signals import Cancel, Retry, Snooze
from packhorse.errors import UnknownScheme
from packhorse.model import limits
from packhorse.model.clock import SYSTEM
from packhorse.model.effect import Put
from packhorse.model.lease import Lease
from packhorse.telemetry.emit import Telemetry
from tests.factories import new

registry = Registry()
NEVER = threading.Event()
TENANT = contextvars.ContextVar("TENANT", default="none")
HOARD: list[bytes] = []
RAISED = {
    kind.__name__: kind
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError, MemoryError, StopIteration, ValueError)
} | {"Retry": lambda _: Retry(7), "Snooze": lambda _: Snooze(9), "Cancel": Cancel}


def task(**policy: Any) -> Callable[[Any], Any]:
    def add(call: Any) -> Any:
        registry.add(Entry(name=call.__name__, call=call, run=Run.PROCESS, policy=Policy(**policy)))
        return call

    return add


class Holder:
    registry = registry


app = Holder()
nothing = object()


@task()
def echo(**given: Any) -> Any:
    return given


@task()
async def echo_async(**given: Any) -> Any:
    await asyncio.sleep(0)
    return given


@task()
def pid() -> int:
    return os.getpid()


@task(attempts=2, dead_on=(ValueError,))
def fail(kind: str) -> None:
    raise RAISED[kind]("on purpose")


@task(attempts=2, dead_on=(ValueError,))
async def fail_async(kind: str) -> None:
    await asyncio.sleep(0)
    raise RAISED[kind]("on purpose")


@task()
def fail_here() -> None:
    raise UnknownScheme("ftp")  # a class that cannot be made from its message


def say(ctx: Context, word: object) -> None:
    """Tell the test something."""
    ctx.progress(0, json.dumps(word))


@task()
def tell(steps: int) -> None:
    for step in range(steps):
        say(current(), step)


@task()
def tell_late() -> None:
    """Leave a thread behind that speaks of this attempt during the next one."""
    ctx = current()

    def speak() -> None:
        RECEIVED.wait()
        say(ctx, "late")
        SENT.set()

    threading.Thread(target=speak, daemon=True).start()


RECEIVED, SENT = threading.Event(), threading.Event()


@task()
def after_late() -> None:
    RECEIVED.set()
    SENT.wait()
    say(current(), "own")


@task(attempts=2)
def with_effects(fails: bool) -> str:
    current().enqueue(new("other", payload=b'{"a": "\xc3\xa9\\u0000"}', delay=5))
    current().publish("news", b'"sold"', key="k")
    current_attempt().effects.append(Put("kind", "key", b"[1]", expect=0))
    if fails:
        raise RuntimeError("too bad")
    return "ok"


@task()
def many_effects(count: int) -> None:
    current().enqueue(*(new("other") for _ in range(count)))


@task()
def huge_effects() -> None:
    """Each is small enough, together they are not."""
    for _ in range(30):
        current().publish("news", b"x" * limits.VALUE)


@task()
def noisy() -> str:
    print("printed", flush=False)  # noqa: T201
    os.write(2, b"written\n")
    return sys.stdin.read()


@task()
def big(size: int) -> str:
    return "x" * (size - 2)


@task()
def unencodable() -> object:
    return object()


@task()
def wait() -> None:
    say(current(), os.getpid())
    NEVER.wait()


@task()
def hold(fifo: str) -> None:
    """Hold a pipe open, here and in a process of our own, until killed."""
    held = os.open(fifo, os.O_WRONLY)
    sleeper = "import os, sys; os.write(int(sys.argv[1]), b'!'); import time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", sleeper, str(held)], pass_fds=(held,))
    NEVER.wait()


@task()
def hold_hard(fifo: str) -> None:
    """The same in native code that does not let go of the interpreter."""
    held = os.open(fifo, os.O_WRONLY)
    os.write(held, b"!")
    backtrack()


@task()
def backtrack() -> None:
    say(current(), os.getpid())
    re.match(r"(a+)+$", "a" * 60 + "b")


@task()
def die(how: str) -> None:
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
        NEVER.wait()
    os._exit(int(how))


@task()
def close_all() -> None:
    os.closerange(3, 1000)


@task()
def stop_nicely(value: str | None) -> str | None:
    ctx = current()
    say(ctx, "waiting")
    while not ctx.cancelled:
        NEVER.wait(0.002)
    if value is None:
        ctx._attempt.raise_if_stopped()
    return value


@task()
async def stop_async() -> None:
    say(current(), "waiting")
    await asyncio.Event().wait()


@task()
async def never_stop() -> None:
    say(current(), "waiting")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            say(current(), "swallowed")


@task()
def hoard(size: int) -> int:
    HOARD.append(b"x" * size)
    return os.getpid()


@task()
def tenant(name: str) -> str:
    before = TENANT.get()
    TENANT.set(name)
    return before


@task()
def place() -> dict[str, Any]:
    left = current_attempt().deadline
    return {
        "folder": str(Path.cwd()),
        "path": sys.path,
        "inherited": os.environ.get("PYTHONPATH"),
        "session": os.getsid(0) == os.getpid(),
        "left": None if left is None else left - SYSTEM.steady(),
        "attempt": current().attempt,
        "headers": dict(current().headers),
    }


@task()
async def stop_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    os._exit(9)  # never reached: its loop does not run again


@task()
def bystander() -> int:
    """How a process started here takes SIGTERM."""
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert sleeper.stdout is not None
    sleeper.stdout.readline()
    sleeper.terminate()
    sleeper.communicate()
    return sleeper.returncode


@task()
def fork_and_end(number: int) -> int:
    """How a fork of this process takes a signal."""
    begun, say = os.pipe()
    forked = os.fork()
    if forked == 0:
        try:
            os.write(say, b"!")
            signal.pause()
        finally:
            os._exit(55)
    os.read(begun, 1)
    os.kill(forked, number)
    return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])


@task()
def stray() -> str:
    """A fork that comes back out of the task as well."""
    forked = os.fork()
    if forked == 0:
        raise RuntimeError("the fork strays")
    os.waitpid(forked, 0)
    return "ok"


def lease(task: str, **options: Any) -> Lease:
    given: dict[str, Any] = {
        "id": bytes(16), "token": bytes(16), "until": 0, "task": task, "queue": "default", "payload": b"sealed",
        "headers": b"{}", "priority": 10, "attempt": 1, "lost": 0, "enqueued_at": 0,
    }  # fmt: skip
    return Lease(**(given | options))


def attempt(task: str, **options: Any) -> Attempt:
    entry = registry.find(task)
    assert entry is not None
    return Attempt(lease(task, **options), entry)


async def work(task: str, payload: str) -> None:
    """A worker with one child and one attempt."""
    children = ChildPool("tests.integration.child_tasks:app", size=1, clock=SYSTEM, telemetry=Telemetry())
    await children.call(attempt(task), payload.encode())
