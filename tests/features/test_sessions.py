"""Sessions and connections of the user's own, in the ways that users set them up."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

from packhorse import App, current
from tests import servers
from tests.conftest import kinds
from tests.features.callers import Callers
from tests.features.factories import run, until

STORES = [kind for kind in kinds() if kind in Callers.KINDS]
TABLE = f"orders_of_{os.getpid()}"  # other processes of the run use the same database
only_postgres = pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "postgres"], indirect=True)


class Base(DeclarativeBase):
    """Tables of the user's own."""


class Order(Base):
    """A row that is written by flushing a session."""

    __tablename__ = TABLE
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(kind: str, url: str) -> Iterator[Any]:
    """An engine at the place of the store, with an empty table."""
    made = create_engine(Callers(kind, url)._address("pysqlite", "psycopg"))
    Base.metadata.drop_all(made)
    Base.metadata.create_all(made)
    yield made
    made.dispose()


@pytest.fixture
async def async_engine(kind: str, url: str, engine: Any) -> AsyncIterator[Any]:
    made = create_async_engine(Callers(kind, url)._address("aiosqlite", "asyncpg"))
    yield made
    await made.dispose()


def statements(engine: Any) -> list[str]:
    """What is executed from now on, by its first words."""
    log: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda c, cursor, statement, *rest: log.append(statement))
    return log


def last_words(log: list[str]) -> list[str]:
    """The last two statements, each as its part of the work."""
    return ["settlement" if "settle_within" in statement else statement.split(" (")[0] for statement in log[-2:]]


@only_postgres
@pytest.mark.parametrize("scoped", [False, True])
async def test_what_a_session_has_not_flushed_is_written_before_the_settlement(live: App, engine: Any, scoped: bool):
    log = statements(engine)

    @live.task(transaction=scoped_session(sessionmaker(engine)) if scoped else sessionmaker(engine), attempts=1)
    def work() -> None:
        current().tx.add(Order(id=7))
        assert not any("INSERT" in statement for statement in log)

    job = await work.enqueue()
    await run(live)

    assert await job.state() == "done"
    assert last_words(log) == [f"INSERT INTO {TABLE}", "settlement"]


@only_postgres
@pytest.mark.parametrize("scoped", [False, True])
async def test_what_an_async_session_has_not_flushed_is_written_before_the_settlement(
    live: App, async_engine: Any, scoped: bool
):
    log = statements(async_engine.sync_engine)
    make: Any = async_sessionmaker(async_engine)
    if scoped:
        make = async_scoped_session(make, scopefunc=asyncio.current_task)

    @live.task(transaction=make, attempts=1)
    async def work() -> None:
        current().tx.add(Order(id=7))

    job = await work.enqueue()
    await run(live)

    assert await job.state() == "done"
    assert last_words(log) == [f"INSERT INTO {TABLE}", "settlement"]


async def test_what_cannot_be_flushed_fails_the_attempt_and_nothing_is_settled(live: App, engine: Any):
    Sessions = sessionmaker(engine)  # noqa: N806

    @live.task(transaction=Sessions, attempts=1)
    def work() -> None:
        current().tx.add_all([Order(id=7), Order(id=8)])
        current().tx.flush()
        current().tx.expunge_all()
        current().tx.add(Order(id=7))

    job = await work.enqueue()
    await run(live)

    assert await job.state() == "dead"
    assert [failure.type for failure in (await job.info()).failures] == ["sqlalchemy.exc.IntegrityError"]
    with Sessions() as session:
        assert session.query(Order).all() == []


@only_postgres
async def test_a_connection_of_psycopg_whose_cursors_take_numbered_placeholders_works(live: App, url: str):
    @live.task
    async def work(n: int) -> str:
        return f"{n} %s %% $1"

    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as plain:
        first = await work.using(within=plain).enqueue(1)
    async with await psycopg.AsyncConnection.connect(url, cursor_factory=psycopg.AsyncRawCursor) as awaited:
        second = await work.using(within=awaited).enqueue(2)
    await run(live)

    assert [await job.result(5) for job in (first, second)] == ["1 %s %% $1", "2 %s %% $1"]


class Reserved(psycopg.Connection[Any]):
    """A connection of a driver that tells nobody else whether it is in a two-phase transaction."""

    def __getattribute__(self, name: str) -> Any:
        if name == "_tpc" and sys._getframe(1).f_globals["__name__"].startswith("packhorse."):
            raise AttributeError(name)
        return super().__getattribute__(name)


@only_postgres
async def test_a_psycopg_that_does_not_tell_of_two_phase_transactions_works(live: App, url: str):
    @live.task
    async def double(n: int) -> int:
        return 2 * n

    with Reserved.connect(url) as connection:
        job = await double.using(within=connection).enqueue(1)
    await run(live)

    assert await job.result(5) == 2


# -- two-phase commit


@pytest.fixture(scope="module")
def preparing_server() -> Iterator[servers.Server]:
    """A server that takes prepared transactions."""
    with servers.running("postgres", "max_prepared_transactions=9", "fsync=off") as server:
        yield server


@pytest.fixture
async def preparing(kind: str, preparing_server: servers.Server) -> AsyncIterator[App]:
    """An app on such a server, beside a worker that sleeps and is notified of work."""
    url = preparing_server.url
    async with App(url) as app, app.worker():

        async def asleep() -> bool:
            with psycopg.connect(url) as connection:
                return connection.execute("select 1 from packhorse.idle_workers").fetchone() is not None

        await until(asleep)
        yield app


@only_postgres
async def test_a_transaction_with_jobs_can_be_prepared_for_a_two_phase_commit_while_a_worker_sleeps(preparing: App):
    @preparing.task
    async def double(n: int) -> int:
        return 2 * n

    with psycopg.connect(preparing.url) as one:
        one.tpc_begin("one")
        first = await double.using(within=one).enqueue(1)
        one.tpc_prepare()
        one.tpc_commit()
    async with await psycopg.AsyncConnection.connect(preparing.url) as two:
        await two.tpc_begin("two")
        second = await double.using(within=two).enqueue(2)
        await two.tpc_prepare()
        await two.tpc_commit()
    engine = create_engine(Callers("postgres", preparing.url)._address("", "psycopg"))
    with sessionmaker(engine, twophase=True)() as session:
        third = await double.using(within=session).enqueue(3)
        session.commit()
    engine.dispose()
    with psycopg.connect(preparing.url, autocommit=True) as by_hand:
        by_hand.execute("begin")
        by_hand.execute("set local packhorse.notify = off")
        fourth = await double.using(within=by_hand).enqueue(4)
        by_hand.execute("prepare transaction 'four'")
        by_hand.execute("commit prepared 'four'")

    assert [await job.result(5) for job in (first, second, third, fourth)] == [2, 4, 6, 8]


@only_postgres
async def test_a_task_can_be_settled_in_a_session_with_a_two_phase_commit(preparing: App):
    engine = create_engine(Callers("postgres", preparing.url)._address("", "psycopg"))

    @preparing.task(transaction=sessionmaker(engine, twophase=True), attempts=1)
    def work() -> int:
        current().tx.connection().exec_driver_sql("create table prepared (n int)")
        return 7

    job = await work.enqueue()
    assert await job.result(5) == 7
    engine.dispose()
