"""Jobs as part of the caller's own transaction, through every driver and framework that is known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from packhorse import App
from packhorse.jobs.portal import PORTAL
from tests.conftest import kinds
from tests.features.callers import TABLE, Callers
from tests.features.conftest import Make
from tests.features.making import PATIENCE, everything, until

STORES = [kind for kind in kinds() if kind in Callers.KINDS]
ADAPTERS = [(kind, name) for kind in STORES for name in Callers.KINDS[kind]]


class Scene:
    """An app with a task that notes what it ran with, and a caller beside it."""

    def __init__(self, app: App, caller: Callers, name: str) -> None:
        self.app, self._caller, self._name = app, caller, name
        self.ran: list[int] = []
        self.changed = asyncio.Event()

        @app.task(name="note")
        async def note(number: int) -> int:
            self.ran.append(number)
            self.changed.set()
            return number

        self.note = note

    def opened(self) -> Any:
        return self._caller.open(self.app, self._name)

    async def jobs(self) -> list[str]:
        return sorted([job.id for job in await everything(self.app)])

    async def until_ran(self, *numbers: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while sorted(self.ran) != sorted(numbers):
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def scene_at(make: Make, kind: str, url: str, name: str) -> AsyncIterator[Scene]:
    scene = Scene(make(), Callers(kind, url), name)
    await scene.app.open()
    async with scene.opened() as begin:
        transaction = await begin()
        await transaction.execute(TABLE)
        await transaction.execute("delete from mine")
        await transaction.commit()
    yield scene
    await asyncio.to_thread(scene.app.sync.close)
    PORTAL.stop()


@pytest.fixture(params=ADAPTERS, ids=lambda pair: "-".join(pair))
def adapter(request: pytest.FixtureRequest) -> tuple[str, str]:
    kind, name = request.param
    return kind, name


@pytest.fixture
def kind(adapter: tuple[str, str]) -> str:
    return adapter[0]


@pytest.fixture
async def scene(make: Make, adapter: tuple[str, str], url: str) -> AsyncIterator[Scene]:
    async with scene_at(make, adapter[0], url, adapter[1]) as made:
        yield made


async def test_s56_what_is_rolled_back_leaves_no_job(scene: Scene):
    async with scene.opened() as begin:
        transaction = await begin()
        await transaction.write(1)
        job = await transaction.enqueue(scene.note.call(1))
        await transaction.rollback()

    assert job.created
    assert await scene.jobs() == []


async def test_what_is_committed_wakes_a_worker_and_runs(scene: Scene):
    async with scene.app.worker() as worker, scene.opened() as begin:
        await worker.idle()
        transaction = await begin()
        await transaction.write(1)
        job = await transaction.enqueue(scene.note.call(1))
        await transaction.commit()
        await scene.until_ran(1)

    assert await scene.jobs() == [job.id]
