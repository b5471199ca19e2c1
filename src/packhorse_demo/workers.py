"""The worker processes of the demo: start, kill and replace them."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from packhorse.cli.command import CliError

READY = b"ready\n"  # printed by a worker when it is ready
STOP_SECONDS = 10
START_SECONDS = 30


class WorkerProcesses:
    """Worker processes of one release; their output goes to a file."""

    def __init__(self, environment: Mapping[str, str], output: Path) -> None:
        self._environment, self._output = environment, output
        self._processes: list[Process] = []
        self.release = 1

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [process.pid for process in self._processes]

    async def start(self, count: int) -> None:
        """Start workers and wait until they are ready."""
        started = await asyncio.gather(*(self._start() for _ in range(count)))
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = [await process.stdout.readline() == READY for process in started if process.stdout is not None]
        except TimeoutError:
            ready = [False]
        if not all(ready):
            for process in started:
                if process.returncode is None:
                    process.kill()
            raise CliError(f"A worker process of the demo did not start.\n{self.output_tail()}")

    async def kill(self) -> int:
        """Kill one worker with SIGKILL; return its process id."""
        process = self._processes.pop(0)
        process.kill()
        await process.wait()
        return process.pid

    async def deploy(self) -> None:
        """Start workers of the next release, then stop the old ones gracefully."""
        old = tuple(self._processes)
        self.release += 1
        await self.start(len(old))
        await self._stop(*old)

    async def close(self) -> None:
        """Stop all workers."""
        await self._stop(*self._processes)

    def output_tail(self) -> str:
        """Return the last lines of the workers' output."""
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-15:])

    async def _start(self) -> Process:
        release = {"PACKHORSE_RELEASE": str(self.release)}
        with self._output.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(
                    "-m",
                    "packhorse_demo.worker_process",
                    self._output.parent,
                ),  # the folder shows in `ps` to which demo it belongs
                env={**os.environ, **self._environment, **release},
                stdin=PIPE,
                stdout=PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C goes to the demo, which then stops the workers
            )
        self._processes.append(process)
        return process

    async def _stop(self, *processes: Process) -> None:
        """Let the workers finish their jobs; kill those that take too long, or all when cancelled."""
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    for process in processes:
                        await process.wait()
        finally:
            for process in processes:
                self._processes.remove(process)
                if process.returncode is None:
                    process.kill()
