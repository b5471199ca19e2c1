"""Jobs as part of the caller's own transaction, through every driver and framework that is known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from packhorse import App, InvalidInput, chain, group
from packhorse.errors import OtherDatabase
from packhorse.jobs.portal import PORTAL
from tests.conftest import kinds, namespace
from tests.features.callers import MINE, TABLE, Callers
from tests.features.conftest import Make
from tests.features.factories import PATIENCE, everything

STORES = [kind for kind in kinds() if kind in Callers.KINDS]
ADAPTERS = [(kind, name) for kind in STORES for name in Callers.KINDS[kind]]


class Scene:
    """An app with a task that notes what it ran with, and a caller beside it."""

    def __init__(self, app: App, caller: Callers, name: str) -> None:
        self.app, self.caller, self.name = app, caller, name
        self.ran: list[int] = []
        self.changed = asyncio.Event()

        @app.task(name="note")
        async def note(number: int) -> int:
            self.ran.append(number)
            self.changed.set()
            return number

        self.note = note

    def opened(self) -> Any:
        return self.caller.open(self.app, self.name)

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
        await transaction.execute(f"delete from {MINE}")
        await transaction.commit()
    yield scene
    await asyncio.to_thread(scene.app.sync.close)
    PORTAL.stop()


@pytest.fixture(params=ADAPTERS, ids="-".join)
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


async def test_the_handle_says_which_job_stands_for_it(scene: Scene):
    first = await scene.note.using(id="one").enqueue(1)
    async with scene.opened() as begin:
        transaction = await begin()
        again = await transaction.enqueue(scene.note.using(id="one").call(1))
        fresh = await transaction.enqueue(scene.note.using(id="two", unique="1h").call(2))
        twin = await transaction.enqueue(scene.note.using(unique="1h").call(2))
        await transaction.commit()

    assert [(job.id == first.id, job.created) for job in (again, fresh)] == [(True, False), (False, True)]
    assert (twin.id, twin.created) == (fresh.id, False)


async def test_a_lane_runs_in_the_order_of_commits(scene: Scene):
    async with scene.opened() as begin:
        for number in (1, 2):
            transaction = await begin()
            await transaction.enqueue(scene.note.using(key="k").call(number))
            await transaction.commit()
    await scene.note.using(key="k").enqueue(3)

    async with scene.app.worker():
        await scene.until_ran(1, 2, 3)

    assert scene.ran == [1, 2, 3]


async def test_plans_and_several_calls_go_together(scene: Scene):
    async with scene.opened() as begin:
        transaction = await begin()
        await transaction.enqueue(
            group(scene.note.call(1), scene.note.call(2)), scene.note.using(delay="1h").call(4), scene.note.call(5)
        )
        await transaction.rollback()
        none = await scene.jobs()
        transaction = await begin()
        handle = await transaction.enqueue(chain(scene.note.call(1), scene.note), scene.note.call(2))
        await transaction.commit()

    assert none == []
    assert len(await scene.jobs()) == 3
    async with scene.app.worker():
        await scene.until_ran(1, 1, 2)
    assert handle.created


async def test_what_is_refused_leaves_the_transaction_as_it_was(scene: Scene):
    async with scene.opened() as begin:
        transaction = await begin()
        await transaction.write(1)
        with pytest.raises(InvalidInput):
            await transaction.enqueue(*[scene.note.call(n) for n in range(501)])
        await transaction.write(2)
        job = await transaction.enqueue(scene.note.call(1))
        await transaction.commit()

    assert await scene.jobs() == [job.id]


async def test_another_database_is_refused_and_the_transaction_goes_on(scene: Scene, elsewhere: str, kind: str):
    stranger = App(elsewhere, namespace=namespace(kind))
    await stranger.open()

    async with scene.opened() as begin:
        transaction = await begin()
        transaction.app = stranger
        with pytest.raises(OtherDatabase, match=r"another database|leads to|is to"):
            await transaction.enqueue(scene.note.call(1))
        transaction.app = scene.app
        job = await transaction.enqueue(scene.note.call(2))
        await transaction.commit()
    await stranger.close()
    await asyncio.to_thread(stranger.sync.close)

    assert await scene.jobs() == [job.id]


async def test_a_database_without_a_store_is_refused(scene: Scene, adapter: tuple[str, str], elsewhere: str):
    async with Callers(adapter[0], elsewhere).open(scene.app, adapter[1]) as begin:
        transaction = await begin()
        with pytest.raises(OtherDatabase, match=r"without|leads to|is to"):
            await transaction.enqueue(scene.note.call(1))
        await transaction.rollback()

    assert await scene.jobs() == []


async def test_the_first_call_of_a_program_may_come_from_a_transaction_that_has_written(scene: Scene, make: Make):
    fresh = Scene(make(), scene.caller, scene.name)

    async with scene.opened() as begin:
        transaction = await begin()
        await transaction.write(1)
        transaction.app = fresh.app
        job = await transaction.enqueue(fresh.note.call(1))
        await transaction.commit()
    await asyncio.to_thread(fresh.app.sync.close)

    assert await scene.jobs() == [job.id]


@pytest.fixture
async def elsewhere(kind: str, url: str, tmp_path: Path) -> AsyncIterator[str]:
    """The address of another database, with nothing in it."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'elsewhere.db'}"
        return
    name = f"elsewhere_{namespace(kind)}"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"create database {name}")
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
        await connection.execute(f"drop database {name} with (force)")
