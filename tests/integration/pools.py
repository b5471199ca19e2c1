"""Pools of child processes for tests, with queues for what they say and bounded waits for what they do."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from packhorse.engine.attempt import Attempt
from packhorse.engine.executors.process import ChildPool
from packhorse.engine.judge import Cause
from packhorse.model import codec
from packhorse.model.clock import SYSTEM
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Outcome
from packhorse.telemetry.emit import Telemetry
from packhorse.telemetry.names import EventName
from tests.integration import child_tasks

ORIGIN = "tests.integration.child_tasks:registry"
LIMIT = 20  # seconds; nothing here takes long, but the machine may be busy


class Pool:
    """Children of one origin, and what they say."""

    def __init__(self, origin: str = ORIGIN, *, size: int = 1, clock: Any = SYSTEM, **options: Any) -> None:
        self.events: asyncio.Queue[tuple[EventName, dict[str, Any]]] = asyncio.Queue()
        telemetry = Telemetry()
        telemetry.on(lambda name, fields: self.events.put_nowait((name, dict(fields))))
        self.children = ChildPool(origin, size=size, clock=clock, telemetry=telemetry, **options)

    async def run(self, task: str, **given: Any) -> Settlement:
        """Run an attempt to its end."""
        settlement = await self.call(child_tasks.attempt(task), **given)
        assert settlement is not None
        return settlement

    async def outcome(self, task: str, **given: Any) -> Outcome:
        return (await self.run(task, **given)).outcome

    async def result(self, task: str, **given: Any) -> Any:
        """What an attempt that works answers."""
        data = (await self.run(task, **given)).outcome.result
        return None if data is None else codec.decode(data)

    async def call(self, attempt: Attempt, **given: Any) -> Settlement | None:
        return await within(self.children.call(attempt, codec.encode(given)))

    def begin(self, task: str, **given: Any) -> "Running":
        """Start an attempt that is watched and stopped by the test."""
        return Running(self, task, given)

    async def emptied(self) -> None:
        """Wait until there is no process."""
        while self.children.pids:
            await within(asyncio.sleep(0.001))

    async def hear(self) -> tuple[EventName, dict[str, Any]]:
        return await within(self.events.get())


class Running:
    """An attempt on its way."""

    def __init__(self, pool: Pool, task: str, given: dict[str, Any]) -> None:
        self.progress: asyncio.Queue[bytes] = asyncio.Queue()
        self.attempt = child_tasks.attempt(task)
        self.attempt.write_progress = lambda _, data: self.progress.put_nowait(data)
        self.task = asyncio.create_task(pool.children.call(self.attempt, codec.encode(given)))

    async def received(self) -> Any:
        """What the attempt tells next."""
        return json.loads(codec.decode(await within(self.progress.get()))["message"])

    def stop(self, cause: Cause) -> None:
        """Stop it as a worker does."""
        self.attempt.stop_cause = cause
        self.task.cancel()

    async def end(self) -> Settlement | None:
        return await within(self.task)


async def within(work: Any) -> Any:
    """Wait for something, not for ever."""
    return await asyncio.wait_for(work, LIMIT)


class Fifo:
    """A pipe with a name: who holds its other end is noticed when it begins, and once more when the last holder is dead."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "fifo")
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def begun(self) -> None:
        assert await self._read() == b"!"

    async def released(self) -> None:
        assert await self._read() == b""

    async def _read(self) -> bytes:
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._end, readable.set)
        try:
            await within(readable.wait())
        finally:
            loop.remove_reader(self._end)
        return os.read(self._end, 1)

    def close(self) -> None:
        os.close(self._end)


@asynccontextmanager
async def pools() -> AsyncIterator[Callable[..., Pool]]:
    """Makes pools and leaves none behind."""
    made: list[Pool] = []

    def make(*args: Any, **options: Any) -> Pool:
        made.append(Pool(*args, **options))
        return made[-1]

    yield make
    for each in made:
        await within(each.children.close(0))


def worker(task: str, **given: Any) -> list[str]:
    """The command of a worker that runs one attempt in a child."""
    code = "import asyncio, sys; from tests.integration.child_tasks import work; asyncio.run(work(*sys.argv[1:]))"
    return [sys.executable, "-c", code, task, codec.encode(given).decode()]
