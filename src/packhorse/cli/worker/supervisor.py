"""Run several workers as child processes: start them, restart those that die, stop all together."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from packhorse.cli import exit_codes
from packhorse.cli.worker.signals import handle_signals
from packhorse.cli.worker.systemd import keep_notifying, notify
from packhorse.cli.worker.worker_link import READY, VARIABLE
from packhorse.engine.wakeup import first
from packhorse.model import backoff, limits
from packhorse.model.clock import SYSTEM
from packhorse.model.randomness import SYSTEM_RANDOMNESS

RESTART_BACKOFF = backoff.exponential(0.5, cap=30, jitter=0.2)
HEALTHY_AFTER_US = 60 * limits.SECOND  # lifetime after which the restart backoff starts again
KILL_AFTER_GRACE_US = 5 * limits.SECOND  # time beyond the grace before workers are killed
KILL_AFTER_SIGNAL_US = 3 * limits.SECOND  # the same after a second signal, which skips the grace
REAP_EVERY_US = 5 * limits.SECOND
FATAL_CODES = (exit_codes.USAGE, exit_codes.APP)  # a worker that ends so before it is ready is not restarted
LOG = logging.getLogger("packhorse.supervisor")


class Supervisor:
    """Keeps a number of worker processes alive."""

    def __init__(self, command: Sequence[str], count: int, grace: int) -> None:
        self._command, self._count, self._grace = tuple(command), count, grace
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping, self._first_ready, self._stop_now = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._signals = 0
        self.code = exit_codes.OK

    async def run(self) -> int:
        """Keep the workers until a signal; return the exit code."""
        with handle_signals(asyncio.get_running_loop(), self._signalled, self._kill):
            background = [asyncio.create_task(keep_notifying()), asyncio.create_task(self._reap())]
            keeping = [asyncio.create_task(self._keep(1))]
            await first(self._first_ready.wait(), self._stopping.wait())  # a wrong option is reported once
            if not self._stopping.is_set():
                keeping += [asyncio.create_task(self._keep(number)) for number in range(2, self._count + 1)]
                LOG.info("Keeping %d workers", self._count)
                notify("READY=1")
            await self._stopping.wait()
            notify("STOPPING=1")
            await self._end(keeping)
            for task in background:
                task.cancel()
        return self.code

    async def _keep(self, number: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            started = SYSTEM.steady()
            try:
                code, was_ready = await self._run_worker(number)
            except OSError as error:  # out of memory or processes, which may be temporary
                LOG.error("Worker %d cannot be started: %s", number, error)
                code, was_ready = exit_codes.FAILED, False
            lived = SYSTEM.steady() - started
            if self._stopping.is_set():
                return
            if code in FATAL_CODES and not was_ready:
                self.code = code
                self._stopping.set()
                return
            failures = 1 if lived > HEALTHY_AFTER_US else failures + 1
            pause = RESTART_BACKOFF.delay(failures, SYSTEM_RANDOMNESS())
            values = (number, _ending(code), lived / limits.SECOND, pause / limits.SECOND)
            LOG.warning("Worker %d %s after %.1f s: starting it again in %.1f s", *values)
            await first(SYSTEM.sleep(pause), self._stopping.wait())

    async def _run_worker(self, number: int) -> tuple[int, bool]:
        """Run one worker to its end; return its exit code and whether it was ready."""
        mine, its = socket.socketpair()
        with mine:
            with its:
                child = await self._start(number, its.fileno())
            self._children[number] = child
            LOG.info("Worker %d has pid %d", number, child.pid)
            if self._stopping.is_set():  # the signal came while this worker was being started
                child.send_signal(signal.SIGTERM)
            mine.setblocking(False)
            was_ready = False
            with suppress(OSError):
                was_ready = await asyncio.get_running_loop().sock_recv(mine, 1) == READY
            if was_ready:
                self._first_ready.set()
            code = await child.wait()
        del self._children[number]
        return code, was_ready

    async def _start(self, number: int, descriptor: int) -> asyncio.subprocess.Process:
        environment = {
            name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")
        }
        # In a process group of its own: Ctrl-C on a terminal reaches it once, through the supervisor.
        return await asyncio.create_subprocess_exec(
            *self._command,
            env={**environment, VARIABLE: f"{number}:{descriptor}"},
            pass_fds=(descriptor,),
            process_group=0,
        )

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals == 1:
            grace = self._grace / limits.SECOND
            LOG.info("%s: stopping the workers within %g s; a second signal stops them now", number.name, grace)
        else:
            LOG.warning("%s again: stopping the workers now", number.name)
            self.code = exit_codes.STOPPED + number
            self._stop_now.set()
        self._stopping.set()
        for child in tuple(self._children.values()):
            with suppress(ProcessLookupError):
                child.send_signal(number)

    async def _end(self, keeping: list["asyncio.Task[None]"]) -> None:
        """Wait for the workers to end; kill those that do not end in time."""
        for child in tuple(self._children.values()) if not self._signals else ():
            with suppress(ProcessLookupError):
                child.terminate()
        await first(_all(keeping), self._kill_deadline())
        for number, child in tuple(self._children.items()):
            LOG.error("Worker %d did not end in time: killing pid %d", number, child.pid)
            self.code = self.code or exit_codes.FAILED
        self._kill()
        await asyncio.gather(*keeping)

    async def _kill_deadline(self) -> None:
        """Wait as long as workers may take to end; a second signal shortens it."""
        await first(SYSTEM.sleep(self._grace + KILL_AFTER_GRACE_US), self._stop_now.wait())
        if self._stop_now.is_set():
            await SYSTEM.sleep(KILL_AFTER_SIGNAL_US)

    def _kill(self) -> None:
        for child in tuple(self._children.values()):
            with suppress(ProcessLookupError):
                child.kill()

    async def _reap(self) -> None:
        """As process 1 of a container, reap the orphaned children of other processes."""
        while os.getpid() == 1:
            await SYSTEM.sleep(REAP_EVERY_US)
            _reap_others({child.pid for child in self._children.values()})


def _reap_others(mine: set[int]) -> None:
    with suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and dead.si_pid not in mine:
            os.waitpid(dead.si_pid, 0)


async def _all(tasks: list["asyncio.Task[None]"]) -> None:
    await asyncio.wait(tasks)


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def supervise(count: int, grace: int) -> int:
    """Keep ``count`` workers with the command line of this process; return the exit code."""
    command = (sys.executable, "-m", "packhorse", *sys.argv[1:])

    async def keep() -> int:
        return await Supervisor(command, count, grace).run()

    with asyncio.Runner() as runner:
        return runner.run(keep())
