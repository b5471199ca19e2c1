"""The worker processes of the demo: hired, killed, replaced by those of the next release."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from packhorse.cli.frame import Trouble

READY = b"ready\n"  # what a worker says once it works
PATIENCE = 10
STARTING = 30  # seconds until a worker must work


class Fleet:
    """So many worker processes of one release; what they say goes to a file."""

    def __init__(self, environment: Mapping[str, str], notes: Path) -> None:
        self._environment, self._notes = environment, notes
        self._porters: list[Process] = []
        self.release = 1

    @property
    def pids(self) -> list[int]:
        """The processes at work."""
        return [porter.pid for porter in self._porters]

    async def hire(self, count: int) -> None:
        """Start so many workers and wait until they work."""
        started = await asyncio.gather(*(self._start() for _ in range(count)))
        try:
            async with asyncio.timeout(STARTING):
                ready = [await porter.stdout.readline() == READY for porter in started if porter.stdout is not None]
        except TimeoutError:
            ready = [False]
        if not all(ready):
            for porter in started:
                if porter.returncode is None:
                    porter.kill()
            raise Trouble(f"A worker process of the demo did not start.\n{self.last_words()}")

    async def kill(self) -> int:
        """SIGKILL one worker, without a warning, and say which."""
        porter = self._porters.pop(0)
        porter.kill()
        await porter.wait()
        return porter.pid

    async def deploy(self) -> None:
        """Bring the next release: its workers first, then the old ones end what they have begun and go."""
        old = tuple(self._porters)
        self.release += 1
        await self.hire(len(old))
        await self._dismiss(*old)

    async def close(self) -> None:
        """Send everybody home."""
        await self._dismiss(*self._porters)

    def last_words(self) -> str:
        """The end of what the workers said."""
        return "\n".join(self._notes.read_text(errors="replace").splitlines()[-15:])

    async def _start(self) -> Process:
        release = {"PACKHORSE_RELEASE": str(self.release)}
        with self._notes.open("ab") as notes:
            porter = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "packhorse.cli.demo.porter", self._notes.parent),  # so that ps tells to which demo it belongs
                env={**os.environ, **self._environment, **release},
                stdin=PIPE,
                stdout=PIPE,
                stderr=notes,
                start_new_session=True,  # Ctrl-C is for the demo, which then sends them home
            )
        self._porters.append(porter)
        return porter

    async def _dismiss(self, *porters: Process) -> None:
        """Let them end what they have begun; who takes too long, or has no time left, is killed."""
        for porter in porters:
            assert porter.stdin is not None
            porter.stdin.close()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    for porter in porters:
                        await porter.wait()
        finally:
            for porter in porters:
                self._porters.remove(porter)
                if porter.returncode is None:
                    porter.kill()
