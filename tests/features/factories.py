"""What feature tests share: running jobs to their ends, and processes to run them in."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from packhorse import App, Job
from packhorse.engine.worker import Settings
from packhorse.events.stream import EventStream
from packhorse.schedules.failure_events import failed
from packhorse.testing import run_until_idle
from tests.factories import DAY, HOUR, MINUTE, SECOND

PATIENCE = 20


async def run(app: App, queues: Any = None, **settings: Any) -> None:
    """Run all that is ready at this moment, and what comes of it."""
    served = Settings(queues=app._weights(queues), **settings)
    await run_until_idle(
        await app.store(), app.registry, served, clock=app._clock, telemetry=app.telemetry, on_dead=failed
    )


async def everything(app: App, **wanted: Any) -> list[Job]:
    """All jobs that fit, page by page."""
    jobs: list[Job] = []
    cursor: str | None = None
    while True:
        page = await app.find(**wanted, cursor=cursor)
        jobs += page.items
        cursor = page.cursor
        if cursor is None:
            return jobs


async def until(holds: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Look again and again until something holds that another process brings about."""
    async with asyncio.timeout(patience):
        while not await holds():
            await asyncio.sleep(0.01)


async def so_far(app: App, *names: str, **options: Any) -> list[Any]:
    """All events that are there now."""
    return [
        event async for event in app.events(*names, after=options.pop("after", "earliest"), follow=False, **options)
    ]


async def some(stream: EventStream, count: int) -> list[Any]:
    """The next events, as they come."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(stream) for _ in range(count)]


class Place:
    """A store, and a file that processes write to line by line; a line is written whole or not at all."""

    def __init__(self, url: str, namespace: str, ledger: Path) -> None:
        self.url, self.namespace, self.ledger = url, namespace, ledger
        ledger.touch()

    @property
    def environment(self) -> dict[str, str]:
        named = {"URL": self.url, "NAMESPACE": self.namespace, "TEST_LEDGER": str(self.ledger)}
        return {**os.environ, **{f"PACKHORSE_{name}": value for name, value in named.items()}}

    def lines(self, word: str = "") -> list[list[str]]:
        """What was written so far; of one kind, if asked for."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [line for line in lines if not word or line[0] == word]

    async def until(self, word: str, count: int = 1) -> list[list[str]]:
        """Wait for so many lines of a kind."""

        async def there() -> bool:
            return len(self.lines(word)) >= count

        await until(there)
        return self.lines(word)


class Workers:
    """Worker processes at one place, each running the tasks of ``tests.features.programs``."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._started: list[asyncio.subprocess.Process] = []

    async def start(self, **options: Any) -> asyncio.subprocess.Process:
        """Start one with these options of ``app.worker``, and wait until it works."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.features.process",
            json.dumps(options),
            env=self._place.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline() == b"works\n"
        return process

    async def end(self) -> None:
        """Kill those that still live."""
        for process in self._started:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()


@asynccontextmanager
async def working(app: App, *queues: str, **options: Any) -> AsyncIterator[None]:
    """A worker of the app beside the test."""
    async with app.worker(list(queues) or None, **options):
        yield


__all__ = [
    "DAY", "HOUR", "MINUTE", "PATIENCE", "SECOND", "Place", "Workers", "everything", "run", "so_far", "some", "until", "working",
]  # fmt: skip
