"""Plays scenes one after the other, once or again and again, and gathers what came of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from packhorse import App, correlated
from packhorse.cli.demo.fleet import Fleet
from packhorse.cli.demo.logbook import Logbook
from packhorse.cli.demo.scene import Audience, Check, Scene, Stage
from packhorse.cli.demo.scenes.orders import confirmed, order
from packhorse.cli.demo.summary import Played
from packhorse.engine.bell import first
from packhorse.model.clock import SYSTEM

WORKERS = 2
SCENE_LIMIT = 30  # seconds
FLOW_LIMIT = 10  # for what is left of it when somebody has pressed Ctrl-C
FLOW = "orders that flow"
BETWEEN_ORDERS = 150_000
LATEST = 200  # of the orders that flow: earlier ones may not be kept any more
SHOWN = 10


class House(Audience, Protocol):
    """An audience that is also told where one scene ends and the next begins."""

    def begin(self, scene: Scene) -> None:
        """A scene begins."""

    def end(self, played: Played) -> None:
        """A scene is over."""


class Show:
    """A stage with its workers, and what was played on it."""

    def __init__(self, app: App, fleet: Fleet, audience: House) -> None:
        self.app, self.fleet, self.audience = app, fleet, audience
        self.log = Logbook(app)
        self.played: list[Played] = []
        self._rounds = self._orders = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Workers work and the log is followed inside."""
        await self.log.skip()
        following = asyncio.create_task(self.log.follow())
        try:
            await self.fleet.hire(WORKERS)
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            await self.fleet.close()

    async def round(self, scenes: Sequence[type[Scene]], limit: float) -> bool:
        """Play each scene once, and say whether that took no longer than so many seconds."""
        self._rounds += 1
        begun = SYSTEM.steady()
        try:
            async with asyncio.timeout(limit):
                for kind in scenes:
                    await self.play(kind())
        except TimeoutError:
            self._note(
                Played("time", "every scene in time", seconds_since(begun), (), f"took more than {limit:g} seconds")
            )
            return False
        return True

    async def play(self, scene: Scene) -> None:
        """Play one scene and check it."""
        stage = self._stage(f"{scene.name} {self._rounds}")
        self.audience.begin(scene)

        async def checks() -> list[Check]:
            with correlated(stage.name):
                await scene.play(stage)
            await self.log.caught_up()
            return await scene.check(stage)

        await self._judge(scene.name, scene.shows, SYSTEM.steady(), checks(), SCENE_LIMIT)

    @asynccontextmanager
    async def flow(self) -> AsyncIterator[None]:
        """Orders come in all the time inside; at the end the latest must all be there."""
        begun, enough = SYSTEM.steady(), asyncio.Event()
        flowing = asyncio.create_task(self._flow(enough))
        try:
            yield
        finally:
            enough.set()
            await asyncio.wait([flowing], timeout=FLOW_LIMIT)
            await self._judge(
                FLOW, "new orders all the time, beside everything else", begun, self._flowed(), FLOW_LIMIT
            )

    async def _flow(self, enough: asyncio.Event) -> None:
        with correlated(FLOW):
            while not enough.is_set():
                await order.enqueue(self._orders)
                self._orders += 1
                await first(enough.wait(), SYSTEM.sleep(BETWEEN_ORDERS))

    async def _flowed(self) -> list[Check]:
        stage = self._stage(FLOW)
        jobs = await stage.quiet()
        latest = [job for job in jobs if job.data["number"] >= self._orders - LATEST]
        return confirmed(stage, latest, min(self._orders, LATEST))

    async def _judge(self, name: str, shows: str, begun: int, checking: Awaitable[list[Check]], limit: float) -> None:
        """Note how it went; whatever goes wrong is an answer too."""
        checks: list[Check] = []
        trouble: str | None = None
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                checks = await checking
        except Exception as error:  # noqa: BLE001 - a scene that breaks is what the summary is for
            late = f"not at its end after {limit} seconds"
            trouble = late if timer.expired() else f"{type(error).__name__}: {error}"
        self._note(Played(name, shows, seconds_since(begun), tuple(checks), trouble))

    def _note(self, played: Played) -> None:
        self.played.append(played)
        self.audience.end(played)

    def _stage(self, name: str) -> Stage:
        return Stage(self.app, self.fleet, self.log, self.audience, name)


async def contents(app: App) -> list[str]:
    """What is in the store, for whoever has to find out what went wrong."""
    counts = await (await app.store()).jobs.count()
    lines = ["In the store:"]
    for queue, states in sorted(counts.items()):
        lines.append(f"  {queue}: " + ", ".join(f"{count} {state}" for state, count in states.items() if count))
    for state in ("ready", "running", "waiting", "scheduled", "dead"):
        for job in (await app.find(state=state, limit=SHOWN)).items:
            why = f" {job.reason}" if job.reason else ""
            failure = f": {job.failures[-1].message}" if job.failures else ""
            lines.append(f"  {job.id} {job.task} {job.status}{why}, try {job.attempt}{failure}")
    return lines


def seconds_since(begun: int) -> float:
    """How long that is ago."""
    return round((SYSTEM.steady() - begun) / 1_000_000, 2)
