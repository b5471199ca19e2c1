"""Several workers as processes of their own: started, watched, started again when they die, and stopped together."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from packhorse.cli import exits
from packhorse.cli.lifeline import READY, VARIABLE
from packhorse.cli.notify import keep_notifying, notify
from packhorse.cli.signals import hearing
from packhorse.engine.bell import first
from packhorse.model import backoff, caps
from packhorse.model.chance import SYSTEM_CHANCE
from packhorse.model.clock import SYSTEM

PAUSES = backoff.exponential(0.5, cap=30, jitter=0.2)
HEALTHY = 60 * caps.SECOND  # a worker that lived so long begins anew with short pauses
MARGIN = 5 * caps.SECOND  # beyond the grace, before workers that do not end are killed
HASTE = 3 * caps.SECOND  # the same after a second signal: what runs was to be handed back at once
REAP = 5 * caps.SECOND
HOPELESS = (exits.USAGE, exits.APP)  # a worker that ends so before it was ready would do so again
LOG = logging.getLogger("packhorse.supervisor")


class Supervisor:
    """Keeps as many workers alive as there should be."""

    def __init__(self, command: Sequence[str], count: int, grace: int) -> None:
        self._command, self._count, self._grace = tuple(command), count, grace
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping, self._up, self._now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._signals = 0
        self.code = exits.OK

    async def run(self) -> int:
        """Keep them until a signal; answers the exit code."""
        with hearing(asyncio.get_running_loop(), self._signalled, self._kill):
            beside = [asyncio.create_task(keep_notifying()), asyncio.create_task(self._reap())]
            keeping = [asyncio.create_task(self._keep(1))]
            await first(self._up.wait(), self._stopping.wait())  # what is wrong with one is wrong with all: say it once
            if not self._stopping.is_set():
                keeping += [asyncio.create_task(self._keep(number)) for number in range(2, self._count + 1)]
                LOG.info("Keeping %d workers", self._count)
                notify("READY=1")
            await self._stopping.wait()
            notify("STOPPING=1")
            await self._end(keeping)
            for task in beside:
                task.cancel()
        return self.code

    async def _keep(self, number: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            begun = SYSTEM.steady()
            try:
                code, was_ready = await self._live(number)
            except OSError as error:  # no memory, no more processes: that may pass
                LOG.error("Worker %d cannot be started: %s", number, error)
                code, was_ready = exits.FAILED, False
            lived = SYSTEM.steady() - begun
            if self._stopping.is_set():
                return
            if code in HOPELESS and not was_ready:
                self.code = code
                self._stopping.set()
                return
            failures = 1 if lived > HEALTHY else failures + 1
            pause = PAUSES.delay(failures, SYSTEM_CHANCE())
            told = (number, _ended(code), lived / caps.SECOND, pause / caps.SECOND)
            LOG.warning("Worker %d %s after %.1f s: starting it again in %.1f s", *told)
            await first(SYSTEM.sleep(pause), self._stopping.wait())

    async def _live(self, number: int) -> tuple[int, bool]:
        """One life of one worker: its exit code, and whether it was ready."""
        mine, its = socket.socketpair()
        with mine:
            with its:
                child = await self._start(number, its.fileno())
            self._children[number] = child
            LOG.info("Worker %d has pid %d", number, child.pid)
            if self._stopping.is_set():  # since this one was being started
                child.send_signal(signal.SIGTERM)
            mine.setblocking(False)
            was_ready = False
            with suppress(OSError):
                was_ready = await asyncio.get_running_loop().sock_recv(mine, 1) == READY
            if was_ready:
                self._up.set()
            code = await child.wait()
        del self._children[number]
        return code, was_ready

    async def _start(self, number: int, lifeline: int) -> asyncio.subprocess.Process:
        environment = {
            name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")
        }
        # A group of their own: Ctrl-C on a terminal reaches them once, through the supervisor.
        return await asyncio.create_subprocess_exec(
            *self._command, env={**environment, VARIABLE: f"{number}:{lifeline}"}, pass_fds=(lifeline,), process_group=0
        )

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals == 1:
            grace = self._grace / caps.SECOND
            LOG.info("%s: stopping the workers within %g s. Once more stops now.", number.name, grace)
        else:
            LOG.warning("%s again: stopping the workers now", number.name)
            self.code = exits.STOPPED + number
            self._now.set()
        self._stopping.set()
        for child in tuple(self._children.values()):
            with suppress(ProcessLookupError):
                child.send_signal(number)

    async def _end(self, keeping: list["asyncio.Task[None]"]) -> None:
        """Wait for the workers to end; kill those that do not."""
        for child in tuple(self._children.values()) if not self._signals else ():
            with suppress(ProcessLookupError):
                child.terminate()
        await first(_all(keeping), self._patience())
        for number, child in tuple(self._children.items()):
            LOG.error("Worker %d does not end: killing pid %d", number, child.pid)
            self.code = self.code or exits.FAILED
        self._kill()
        await asyncio.gather(*keeping)

    async def _patience(self) -> None:
        """How long workers may take to end; a second signal cuts it short."""
        await first(SYSTEM.sleep(self._grace + MARGIN), self._now.wait())
        if self._now.is_set():
            await SYSTEM.sleep(HASTE)

    def _kill(self) -> None:
        for child in tuple(self._children.values()):
            with suppress(ProcessLookupError):
                child.kill()

    async def _reap(self) -> None:
        """As the first process of a container: bury the children of others too."""
        while os.getpid() == 1:
            await SYSTEM.sleep(REAP)
            _bury({child.pid for child in self._children.values()})


def _bury(mine: set[int]) -> None:
    with suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid not in mine:
            os.waitpid(dead.si_pid, 0)


async def _all(tasks: list["asyncio.Task[None]"]) -> None:
    await asyncio.wait(tasks)


def _ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def supervise(count: int, grace: int) -> int:
    """Keep so many workers with the command line of this process; answers the exit code."""
    command = (sys.executable, "-m", "packhorse", *sys.argv[1:])

    async def keep() -> int:
        return await Supervisor(command, count, grace).run()

    with asyncio.Runner() as runner:
        return runner.run(keep())
