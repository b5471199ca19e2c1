"""Programs without an event loop, one function each: ``python -m tests.features.sync_scenes fork``."""

import asyncio
import atexit
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from packhorse import ConfigError
from packhorse.jobs.portal import PORTAL
from tests.features.sync_tasks import app, note

PATIENCE = 20
FORKS = 30


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def forked(run: Callable[[], None], fork: Callable[[], int] = os.fork) -> int:
    """Run a function in a child, and say how the child ended; one that hangs is ended by an alarm."""
    pid = fork()
    if pid == 0:
        signal.alarm(PATIENCE)
        try:
            run()
            os._exit(0)
        except BaseException as error:
            say("child:", type(error).__name__, error)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def script() -> None:
    """Enqueue, and wait for the result."""
    say(note.sync.enqueue("plain").result(timeout=PATIENCE))


def fork() -> None:
    """Parent, child and grandchild call, one after the other, and the parent again."""

    def child() -> None:
        note.sync.enqueue("child")
        assert forked(lambda: say(note.sync.enqueue("grandchild").state())) == 0

    note.sync.enqueue("parent")
    assert forked(child) == 0
    say(note.sync.enqueue("parent again").state())


def fork_unused() -> None:
    """The first call of all is the child's."""
    assert forked(lambda: say(note.sync.enqueue("child").state())) == 0
    say(note.sync.enqueue("parent").state())


def fork_busy() -> None:
    """Children are forked while other threads of the parent call, and one waits for a result."""
    over = threading.Event()
    called = [0, 0]

    def call(caller: int) -> None:
        while not over.is_set():
            note.sync.enqueue("busy")
            called[caller] += 1

    def child() -> None:
        note.sync.enqueue("child")

    waiting = note.sync.enqueue("waited for")
    threading.Thread(target=waiting.result, daemon=True).start()
    callers = [threading.Thread(target=call, args=(number,)) for number in range(len(called))]
    for caller in callers:
        caller.start()
    ends = [forked(child) for _ in range(FORKS)]
    over.set()
    for caller in callers:
        caller.join()
    say(*(end for end in ends if end))
    say(sum(called))


def fork_orphan() -> None:
    """A child goes on when its parent is gone, while another program comes and goes."""
    note.sync.enqueue("parent")
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    signal.alarm(PATIENCE)
    note.sync.enqueue("child")
    while os.getppid() == parent:
        pass
    subprocess.run([sys.executable, "-m", "tests.features.sync_scenes", "come_and_go"], check=True)
    say(note.sync.enqueue("orphan").state())


def come_and_go() -> None:
    """Call, and close what was opened."""
    with app.sync:
        note.sync.enqueue("other")


def fork_in_c() -> None:
    """A fork that Python is not informed of."""

    async def answer() -> int:
        return os.getpid()

    fork_of_libc = ctypes.PyDLL(None).fork
    assert PORTAL.run(answer()) == os.getpid()

    def child() -> None:
        assert PORTAL.run(answer()) == os.getpid()

    assert forked(child, fork_of_libc) == 0
    assert PORTAL.run(answer()) == os.getpid()
    say("both")


def fork_memory() -> None:
    """What is in memory is not shared: the child begins with nothing."""
    queue = app.sync.queue("default")
    note.sync.enqueue("parent")

    def child() -> None:
        before = queue.counts()["ready"]
        note.sync.enqueue("child")
        say("child", before, queue.counts()["ready"])

    assert forked(child) == 0
    say("parent", queue.counts()["ready"])


def interrupt() -> None:
    """Ctrl-C while a result is waited for."""
    job = note.sync.enqueue("never run")

    async def waiting() -> int:
        return sum(task.get_coro().__qualname__ == "JobHandle.result" for task in asyncio.all_tasks())

    def press() -> None:
        while not PORTAL.run(waiting()):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    try:
        job.result()
    except KeyboardInterrupt:
        say("interrupted")
    while PORTAL.run(waiting()):
        pass
    say(job.state())


def at_exit() -> None:
    """Calls when the interpreter ends, of one who asked to be called before Packhorse was used and one after."""

    def late() -> None:
        try:
            note.sync.enqueue("late")
        except ConfigError as error:
            say(error)

    atexit.register(late)
    note.sync.enqueue("in time")
    atexit.register(late)


def threads_go_on() -> None:
    """The main thread is over, another makes its first call then."""

    def call() -> None:
        threading.main_thread().join()
        say(note.sync.enqueue("thread").state())

    threading.Thread(target=call).start()


def busy_exit() -> None:
    """The program ends while a daemon waits for a result that does not come."""
    job = note.sync.enqueue("never run")
    threading.Thread(target=job.result, daemon=True).start()
    say(job.state())


def signalled() -> None:
    """Signals whose handler calls come at every step of the main thread's first call."""

    def handle(*_: object) -> None:
        if not handled:
            handled.append(note.sync.enqueue("handler").id)

    def strike(*_: object) -> Any:
        steps.append(1)
        if len(steps) == moment:
            signal.raise_signal(signal.SIGUSR1)
        return strike

    signal.signal(signal.SIGUSR1, handle)
    signal.alarm(4 * PATIENCE)
    for moment in range(1, 200):
        steps, handled = list[int](), list[str]()
        PORTAL.stop()
        sys.settrace(strike)
        PORTAL.run(asyncio.sleep(0))
        sys.settrace(None)
        if not handled:
            say(moment > 20, note.sync.enqueue("main").state())
            return


if __name__ == "__main__":
    globals()[sys.argv[1]]()
