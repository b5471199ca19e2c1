"""S31: what a handler writes and the completion of its job are one transaction, the store's or one of the user's own."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from packhorse import App, ConfigError, current, exponential
from packhorse.errors import NoTransactions, OtherDatabase
from packhorse.telemetry.names import EventName
from tests.conftest import kinds
from tests.features.callers import MINE
from tests.features.drivers import Factories
from tests.features.factories import run

STORES = [kind for kind in kinds() if kind in Factories.KINDS]
ADAPTERS = [(kind, name) for kind in STORES for name in Factories.KINDS[kind]]
COMMITTING = [(kind, name) for kind in STORES for name in Factories.COMMITTING[kind]]
AT_ONCE = exponential(0)


PRODUCER = """
import select, sys, time
from packhorse import App

waits = []
app = App(sys.argv[1])
app.sync.open()
print("open", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    sent = time.monotonic()
    app.sync.queue("elsewhere").enqueue("quick", {})
    waits.append(time.monotonic() - sent)
print(len(waits), max(waits), flush=True)
app.sync.close()
"""  # enqueues until it is asked to stop, and says how often and how long it took at the longest


class Mine:
    """A table of the user's own, seen from outside."""

    def __init__(self, kind: str, url: str) -> None:
        self._connect: Any = psycopg.connect if kind == "postgres" else sqlite3.connect
        self._address = url if kind == "postgres" else url.removeprefix("sqlite:///")
        self.run(f"create table if not exists {MINE} (n integer primary key)")
        self.run(f"delete from {MINE}")

    def run(self, sql: str) -> list[int]:
        connection = self._connect(self._address)
        try:
            cursor = connection.execute(sql)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
        finally:
            connection.close()
        return [number for (number,) in found]

    def rows(self) -> list[int]:
        return self.run(f"select n from {MINE} order by n")


@pytest.fixture
async def mine(kind: str, url: str, live: App) -> Mine:
    await live.open()
    return Mine(kind, url)


class TestFromTheStore:
    """``transaction=True``."""

    @pytest.fixture(params=STORES)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    async def test_s31_an_async_and_a_plain_handler_write_with_their_jobs(self, live: App, mine: Mine):
        @live.task(transaction=True, attempts=1)
        async def on_loop(number: int) -> int:
            return int(await current().tx.execute(f"insert into {MINE} values ({number})"))

        @live.task(transaction=True, attempts=1)
        def in_thread(number: int, fail: bool = False) -> int:
            changed = current().tx.execute(f"insert into {MINE} values ({number})")
            if fail:
                raise ValueError("no")
            return int(changed)

        written = [await on_loop.enqueue(1), await in_thread.enqueue(2)]
        failed = await in_thread.enqueue(3, fail=True)
        await run(live)

        assert [await job.result(5) for job in written] == [1, 1]
        assert await failed.state() == "dead"
        assert mine.rows() == [1, 2]

    async def test_what_a_handler_enqueues_is_there_with_what_it_wrote(self, live: App, mine: Mine):
        ran: list[list[int]] = []

        @live.task
        async def after() -> None:
            ran.append(await asyncio.to_thread(mine.rows))

        @live.task(transaction=True)
        async def before() -> None:
            await current().tx.execute(f"insert into {MINE} values (1)")
            current().enqueue(after.call())

        await before.enqueue()
        await run(live)

        assert ran == [[1]]


class TestFromAFactory:
    """``transaction=factory``: the user's own sessions."""

    @pytest.fixture(params=ADAPTERS, ids="-".join)
    def adapter(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        kind, name = request.param
        return kind, name

    @pytest.fixture
    def kind(self, adapter: tuple[str, str]) -> str:
        return adapter[0]

    @pytest.fixture
    async def factories(self, kind: str, url: str) -> AsyncIterator[Factories]:
        made = Factories(kind, url)
        yield made
        await made.close()

    async def test_s31_what_is_written_in_a_session_is_committed_with_the_job(
        self, live: App, mine: Mine, adapter: tuple[str, str], factories: Factories
    ):
        factory, handler = await factories.of(adapter[1])
        task = live.task(name="write", transaction=factory, attempts=1)(handler)
        good = [await task.enqueue(number) for number in (1, 2)]
        bad = await task.enqueue(3, fail=True)
        await run(live)

        assert [await job.state() for job in good] == ["done", "done"]
        assert await bad.state() == "dead"
        assert mine.rows() == [1, 2]

    async def test_a_lost_lease_rolls_a_session_back(
        self, live: App, mine: Mine, adapter: tuple[str, str], factories: Factories
    ):
        factory, handler = await factories.of(adapter[1])
        reported: list[Any] = []
        live.telemetry.on(lambda name, fields: reported.append(name))
        store = await live.store()

        def stealing() -> Any:
            asyncio.run_coroutine_threadsafe(store.jobs.drop([lost.id]), loop).result(10)
            return factory()

        async def stealing_on_loop() -> Any:
            await store.jobs.drop([lost.id])
            made = factory()
            return made if hasattr(made, "__aenter__") else await made

        blocking = not asyncio.iscoroutinefunction(handler)
        task = live.task(name="write", transaction=stealing if blocking else stealing_on_loop)(handler)
        loop = asyncio.get_running_loop()
        [receipt] = await live.client.send(task.call(1).jobs())
        lost = receipt
        await run(live)

        assert mine.rows() == []
        assert {EventName.ROLLED_BACK, EventName.LEASE_LOST} & set(reported), "whoever notices first"
        assert EventName.DONE not in reported


class TestFromAFactoryThatCommitsByItself:
    """``transaction=factory``, where nothing could be undone: refused before the handler writes anything."""

    @pytest.fixture(params=COMMITTING, ids="-".join)
    def adapter(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        kind, name = request.param
        return kind, name

    @pytest.fixture
    def kind(self, adapter: tuple[str, str]) -> str:
        return adapter[0]

    async def test_a_session_that_commits_by_itself_is_refused_before_anything_is_written(
        self, live: App, mine: Mine, adapter: tuple[str, str], url: str
    ):
        factories = Factories(adapter[0], url)
        factory, handler = await factories.committing(adapter[1])
        task = live.task(name="write", transaction=factory, attempts=2, backoff=AT_ONCE)(handler)
        job = await task.enqueue(1)
        await run(live)
        await factories.close()

        assert await job.state() == "dead"
        assert [failure.type for failure in (await job.info()).failures] == ["packhorse.errors.NoTransaction"] * 2
        assert mine.rows() == []


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "sqlite"])
async def test_a_session_that_begins_by_itself_is_fine(live: App, mine: Mine, url: str):
    @contextmanager
    def immediate() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("begin immediate")
            yield connection

    @live.task(transaction=immediate, attempts=1)
    def work() -> None:
        current().tx.execute(f"insert into {MINE} values (1)")

    job = await work.enqueue()
    await run(live)

    assert (await job.state(), mine.rows()) == ("done", [1])


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "sqlite"])
async def test_a_session_of_another_database_is_refused_with_advice(live: App, tmp_path: Path):
    other = str(tmp_path / "other.db")

    @live.task(transaction=lambda: sqlite3.connect(other), attempts=1)
    def work() -> None:
        current().tx.execute(f"create table {MINE} (n integer)")

    job = await work.enqueue()
    await run(live)

    [failure] = (await job.info()).failures
    assert "database of the store" in failure.message


@pytest.mark.parametrize("transaction", [True, lambda: None], ids=["store", "factory"])
def test_a_task_that_wants_a_transaction_on_redis_is_refused_when_it_is_defined(transaction: Any):
    app = App("redis://localhost")

    with pytest.raises((NoTransactions, OtherDatabase), match="Redis"):
        app.task(transaction=transaction)(os.getpid)


def test_a_task_in_a_child_process_cannot_have_a_transaction():
    app = App("sqlite:///:memory:")
    for options in ({"run": "process"}, {"timeout": 5}):
        with pytest.raises(NoTransactions, match='run="thread"'):
            app.task(transaction=True, **options)(os.getpid)
    with pytest.raises(ConfigError, match="give True"):
        app.task(transaction="default")(os.getpid)


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "sqlite"])
async def test_a_transaction_of_five_seconds_delays_no_enqueue_by_more_than_two_and_a_half(
    live: App, mine: Mine, url: str
):
    reported: list[tuple[EventName, Any]] = []
    live.telemetry.on(lambda name, fields: reported.append((name, dict(fields))))
    ended = threading.Event()

    @live.task(transaction=True, backoff=AT_ONCE)
    async def slow() -> None:
        await current().tx.execute(f"insert into {MINE} values (1)")
        if current().attempt == 1:
            began.set()
            await asyncio.sleep(5)
            ended.set()

    @live.task
    async def quick() -> None:
        pass

    began = asyncio.Event()
    await live.open()
    command = [sys.executable, "-c", PRODUCER, url]
    other = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert await other.stdout.readline() == b"open\n"
    async with live.worker(concurrency=4, lease=12):
        job = await slow.enqueue()
        await began.wait()
        longest = 0.0
        while not ended.is_set():
            sent = time.monotonic()
            await quick.enqueue()
            longest = max(longest, time.monotonic() - sent)
        await job.result(20)
    printed, _ = await other.communicate(b"stop\n")
    count, longest_of_other = map(float, printed.split())

    assert longest < 2.5
    assert 1 < longest_of_other < 2.5, "it does not wait for the transaction, or for too long"
    assert count > 10
    assert mine.rows() == [1]
    names = [name for name, _ in reported]
    assert (names.count(EventName.ROLLED_BACK), names.count(EventName.LOST), names.count(EventName.LEASE_LOST)) == (
        1,
        0,
        0,
    )
    [again] = [fields for name, fields in reported if name is EventName.RETRYING]
    assert "transaction-too-long" in again["error"].message


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind == "sqlite"])
async def test_a_session_that_cannot_be_opened_is_a_failed_try(live: App, mine: Mine):
    closed: list[str] = []

    @contextmanager
    def half_open() -> Iterator[sqlite3.Connection]:
        try:
            raise ConnectionError("away")
        finally:
            closed.append("closed")
        yield

    @live.task(transaction=half_open, attempts=2, backoff=AT_ONCE)
    def work() -> None:
        raise AssertionError("it has no session")

    job = await work.enqueue()
    await run(live)

    assert (await job.state(), closed) == ("dead", ["closed", "closed"])
    assert [failure.type for failure in (await job.info()).failures] == ["ConnectionError", "ConnectionError"]
