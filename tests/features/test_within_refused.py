"""What ``within=`` refuses, and how sync code uses it."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from packhorse import App, InvalidInput, JobState, StoreUnavailable, chain, current
from packhorse.errors import NoTransaction, OtherDatabase, UnknownConnection
from packhorse.jobs.portal import PORTAL
from tests.conftest import kinds
from tests.features.callers import Callers, known_to_django
from tests.features.factories import Place, everything, run

ROOT = Path(__file__).parents[2]


class Sum:
    """An app with a task, and the way to the database below it."""

    def __init__(self, app: App, kind: str) -> None:
        self.app = app
        self.url = app.url
        self.path = app.url.removeprefix("sqlite:///")

        @app.task(name="add")
        async def add(a: int, b: int = 0) -> int:
            return a + b

        self.add = add


@pytest.fixture(params=[kind for kind in kinds() if kind in Callers.KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sums(live: App, kind: str) -> Iterator[Sum]:
    yield Sum(live, kind)
    live.sync.close()
    PORTAL.stop()


only_sqlite = pytest.mark.parametrize("kind", [kind for kind in kinds() if kind == "sqlite"], indirect=True)
only_postgres = pytest.mark.parametrize("kind", [kind for kind in kinds() if kind == "postgres"], indirect=True)


@pytest.mark.parametrize("given", [1, "sqlite:///x.db", object(), sqlite3, TypeError])
async def test_what_is_no_connection_is_refused_with_the_names_of_those_that_are(sums: Sum, given: Any):
    with pytest.raises(UnknownConnection, match=r"sqlite3, aiosqlite, psycopg or asyncpg.*SQLAlchemy.*Django"):
        await sums.add.using(within=given).enqueue(1)


@only_sqlite
async def test_sqlite_without_a_transaction_is_refused(sums: Sum):
    connection = sqlite3.connect(sums.path, isolation_level=None)
    with pytest.raises(NoTransaction, match="BEGIN IMMEDIATE"):
        await sums.add.using(within=connection).enqueue(1)
    connection.close()
    async with aiosqlite.connect(sums.path, isolation_level=None) as other:
        with pytest.raises(NoTransaction):
            await sums.add.using(within=other).enqueue(1)
    assert await everything(sums.app) == []


@only_postgres
async def test_drivers_of_postgresql_without_a_transaction_are_refused(sums: Sum):
    with psycopg.connect(sums.url, autocommit=True) as connection:
        with pytest.raises(NoTransaction):
            await sums.add.using(within=connection).enqueue(1)
        with connection.transaction():
            await sums.add.using(within=connection).enqueue(1)
    async with await psycopg.AsyncConnection.connect(sums.url, autocommit=True) as other:
        with pytest.raises(NoTransaction):
            await sums.add.using(within=other).enqueue(1)
    third = await asyncpg.connect(sums.url)
    with pytest.raises(NoTransaction):
        await sums.add.using(within=third).enqueue(1)
    await third.close()
    assert len(await everything(sums.app)) == 1


async def test_sqlalchemy_that_commits_by_itself_is_refused(sums: Sum, kind: str):
    callers = Callers(kind, sums.url)
    engine = create_engine(callers._address("pysqlite", "psycopg"), isolation_level="AUTOCOMMIT")
    with Session(engine) as session, pytest.raises(NoTransaction):
        await sums.add.using(within=session).enqueue(1)
    engine.dispose()
    for driver in ("psycopg", "asyncpg"):
        other = create_async_engine(callers._address("aiosqlite", driver), isolation_level="AUTOCOMMIT")
        async with other.connect() as connection:
            with pytest.raises(NoTransaction):
                await sums.add.using(within=connection).enqueue(1)
        await other.dispose()
    assert await everything(sums.app) == []


async def test_django_outside_of_atomic_is_refused(sums: Sum, kind: str):
    from django.db import connections

    known_to_django("alone", kind, sums.url)

    def outside() -> None:
        try:
            with pytest.raises(NoTransaction, match=r"transaction\.atomic"):
                sums.add.using(within=connections["alone"]).sync.enqueue(1)
        finally:
            connections["alone"].close()

    await asyncio.to_thread(outside)
    assert await everything(sums.app) == []


@only_sqlite
async def test_another_file_is_not_touched_by_a_call_that_is_refused(sums: Sum, tmp_path: Path):
    async with App(f"sqlite:///{tmp_path / 'other.db'}") as other:
        await other.open()
        connection = sqlite3.connect(tmp_path / "other.db")
        with pytest.raises(OtherDatabase, match="The connection is to"):
            await sums.add.using(within=connection).enqueue(1)

        assert not connection.in_transaction
        connection.close()


@only_sqlite
async def test_whoever_wrote_before_a_transaction_read_anything_is_no_obstacle(sums: Sum):
    connection = sqlite3.connect(sums.path, isolation_level=None)
    await sums.app.open()
    connection.execute("begin")
    await sums.add.enqueue(1)

    await sums.add.using(within=connection).enqueue(2)
    connection.execute("commit")
    connection.close()

    assert len(await everything(sums.app)) == 2


@only_sqlite
async def test_a_transaction_that_has_read_what_another_changed_is_asked_to_begin_immediately(sums: Sum):
    await sums.add.enqueue(1)
    connection = sqlite3.connect(sums.path)
    connection.execute("begin")
    connection.execute("select count(*) from packhorse_jobs").fetchone()
    await sums.add.enqueue(2)

    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
        await sums.add.using(within=connection).enqueue(3)
    connection.close()


@only_postgres
async def test_a_file_cannot_take_part_in_a_transaction_of_a_server_nor_the_other_way_round(sums: Sum, memory: App):
    @memory.task
    async def nothing() -> None: ...

    with sqlite3.connect(":memory:") as file, pytest.raises(OtherDatabase, match="the store is on PostgreSQL"):
        await sums.add.using(within=file).enqueue(1)
    file.close()
    with psycopg.connect(sums.url) as server, pytest.raises(OtherDatabase, match="file of SQLite"):
        await nothing.using(within=server).enqueue()


# -- sync code


@only_sqlite
def test_sync_code_enqueues_on_its_own_thread(sums: Sum):
    connection = sqlite3.connect(sums.path)  # refuses to be used by any other thread
    sums.app.sync.open()

    first = sums.add.using(within=connection).sync.enqueue(1)
    [second] = sums.app.sync.enqueue(sums.add.call(2), within=connection)
    third = sums.app.sync.queue("default").enqueue("add", {"a": 3}, within=connection)
    fourth = chain(sums.add.call(4), sums.add).sync.enqueue(within=connection)
    before = [job.state().value for job in (first, second, third, fourth)]
    connection.commit()
    connection.close()

    assert before == ["unknown"] * 4
    assert [job.state().value for job in (first, second, third, fourth)] == ["ready", "ready", "ready", "waiting"]


@only_postgres
def test_sync_code_enqueues_on_its_own_connection(sums: Sum):
    def program() -> None:
        with psycopg.connect(sums.url) as connection:
            sums.add.using(within=connection).sync.enqueue(1)

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()

    assert len(sums.app.sync.find().items) == 1


@only_sqlite
def test_sync_code_cannot_use_a_connection_of_a_loop(sums: Sum):
    connection = aiosqlite.connect(sums.path)

    with pytest.raises(UnknownConnection, match="await task"):
        sums.add.using(within=connection).sync.enqueue(1)


def test_a_django_program_orders_and_enqueues_in_one_transaction(place: Place, kind: str):
    program = [sys.executable, "-m", "tests.features.django_shop"]
    environment = {**place.environment, "TEST_KIND": kind}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"orders": ["halter", "saddle"], "made": [True, False, True], "jobs": 4}


# -- where it cannot be given


@only_sqlite
async def test_within_is_given_once_and_where_it_counts(sums: Sum):
    one, two = sqlite3.connect(sums.path), sqlite3.connect(sums.path)
    await sums.app.open()

    with pytest.raises(InvalidInput, match="one transaction"):
        await sums.app.enqueue(sums.add.using(within=one).call(1), within=two)
    with pytest.raises(InvalidInput, match=r"plan\.enqueue\(within"):
        await chain(sums.add.using(within=one).call(1), sums.add).enqueue()
    both = await sums.app.enqueue(sums.add.using(within=one).call(1), sums.add.call(2))
    one.commit()
    one.close()
    two.close()

    assert sorted(job.id for job in await everything(sums.app)) == sorted(job.id for job in both)


@only_sqlite
async def test_an_effect_of_a_job_cannot_be_within_something_else(sums: Sum):
    connection = sqlite3.connect(sums.path)

    @sums.app.task(attempts=1)
    async def parent() -> None:
        current().enqueue(sums.add.using(within=connection).call(1))

    await parent.enqueue()
    await run(sums.app)
    connection.close()

    [job] = await everything(sums.app)
    assert job.state is JobState.DEAD
    assert "commits with that" in job.failures[-1].message


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind == "redis"], indirect=True)
async def test_a_store_on_redis_cannot_be_part_of_a_transaction(live: App):
    @live.task
    async def nothing() -> None: ...

    with sqlite3.connect(":memory:") as connection, pytest.raises(OtherDatabase, match="Redis cannot be part"):
        await nothing.using(within=connection).enqueue()
    connection.close()
