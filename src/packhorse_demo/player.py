"""Run the scenes one after the other and collect their results."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from packhorse import App, correlated
from packhorse.engine.wakeup import first
from packhorse.model.clock import SYSTEM
from packhorse_demo.event_log import EventLog
from packhorse_demo.scene import Audience, Check, Scene, Stage
from packhorse_demo.scenes.orders import confirmed, order
from packhorse_demo.summary import SceneResult
from packhorse_demo.workers import WorkerProcesses

WORKERS = 2
SCENE_SECONDS = 30
ORDERS_END_SECONDS = 10  # for the open orders to end after Ctrl-C
ORDERS = "steady orders"
ORDER_EVERY_US = 150_000
MAX_ORDERS_CHECKED = 200  # the latest: earlier ones may no longer be kept
MAX_JOBS_SHOWN = 10


class SceneAudience(Audience, Protocol):
    """An audience that also sees where scenes begin and end."""

    def begin(self, scene: Scene) -> None:
        """Show that a scene begins."""

    def end(self, result: SceneResult) -> None:
        """Show the result of a scene."""


class Player:
    """Runs scenes with its workers and keeps their results."""

    def __init__(self, app: App, workers: WorkerProcesses, audience: SceneAudience) -> None:
        self.app, self.workers, self.audience = app, workers, audience
        self.log = EventLog(app)
        self.results: list[SceneResult] = []
        self._rounds = self._orders = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Run the workers and follow the event log inside the block."""
        await self.log.skip()
        following = asyncio.create_task(self.log.follow())
        try:
            await self.workers.start(WORKERS)
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            await self.workers.close()

    async def round(self, scenes: Sequence[type[Scene]], limit: float) -> bool:
        """Run each scene once; return False if that takes more than ``limit`` seconds."""
        self._rounds += 1
        started = SYSTEM.steady()
        try:
            async with asyncio.timeout(limit):
                for kind in scenes:
                    await self.play(kind())
        except TimeoutError:
            self._add(
                SceneResult(
                    "time", "every scene in time", seconds_since(started), (), f"took more than {limit:g} seconds"
                )
            )
            return False
        return True

    async def play(self, scene: Scene) -> None:
        """Run one scene and its checks."""
        stage = self._stage(f"{scene.name} {self._rounds}")
        self.audience.begin(scene)

        async def checks() -> list[Check]:
            with correlated(stage.name):
                await scene.play(stage)
            await self.log.caught_up()
            return await scene.check(stage)

        await self._run(scene.name, scene.shows, SYSTEM.steady(), checks(), SCENE_SECONDS)

    @asynccontextmanager
    async def orders(self) -> AsyncIterator[None]:
        """Enqueue orders all the time inside the block; check at the end that none is missing."""
        started, stop = SYSTEM.steady(), asyncio.Event()
        enqueuing = asyncio.create_task(self._enqueue_orders(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait([enqueuing], timeout=ORDERS_END_SECONDS)
            await self._run(
                ORDERS,
                "new orders all the time, beside everything else",
                started,
                self._check_orders(),
                ORDERS_END_SECONDS,
            )

    async def _enqueue_orders(self, stop: asyncio.Event) -> None:
        with correlated(ORDERS):
            while not stop.is_set():
                await order.enqueue(self._orders)
                self._orders += 1
                await first(stop.wait(), SYSTEM.sleep(ORDER_EVERY_US))

    async def _check_orders(self) -> list[Check]:
        stage = self._stage(ORDERS)
        jobs = await stage.quiet()
        latest = [job for job in jobs if job.data["number"] >= self._orders - MAX_ORDERS_CHECKED]
        return confirmed(stage, latest, min(self._orders, MAX_ORDERS_CHECKED))

    async def _run(self, name: str, shows: str, started: int, checking: Awaitable[list[Check]], limit: float) -> None:
        """Run the checks and keep the result; an error is a result too."""
        checks: list[Check] = []
        failure: str | None = None
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                checks = await checking
        except Exception as error:  # noqa: BLE001 - the summary shows a scene that broke
            late = f"did not end within {limit} seconds"
            failure = late if timer.expired() else f"{type(error).__name__}: {error}"
        self._add(SceneResult(name, shows, seconds_since(started), tuple(checks), failure))

    def _add(self, result: SceneResult) -> None:
        self.results.append(result)
        self.audience.end(result)

    def _stage(self, name: str) -> Stage:
        return Stage(self.app, self.workers, self.log, self.audience, name)


async def contents(app: App) -> list[str]:
    """Describe what is in the store, to find out what went wrong."""
    counts = await (await app.store()).jobs.count()
    lines = ["In the store:"]
    for queue, states in sorted(counts.items()):
        lines.append(f"  {queue}: " + ", ".join(f"{count} {state}" for state, count in states.items() if count))
    for state in ("ready", "running", "waiting", "scheduled", "dead"):
        for job in (await app.find(state=state, limit=MAX_JOBS_SHOWN)).items:
            why = f" {job.reason}" if job.reason else ""
            failure = f": {job.failures[-1].message}" if job.failures else ""
            lines.append(f"  {job.id} {job.task} {job.state}{why}, try {job.attempt}{failure}")
    return lines


def seconds_since(started: int) -> float:
    """Return the seconds since a moment."""
    return round((SYSTEM.steady() - started) / 1_000_000, 2)
