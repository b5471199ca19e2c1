"""The file of a store and what may happen around it: links, locks, rights, forks, other programs, clocks."""

import asyncio
import contextlib
import fcntl
import multiprocessing
import os
import sqlite3
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from packhorse import App, current
from packhorse.errors import JobFailed, StoreDamaged, StoreUnavailable
from packhorse.model.event import LIFECYCLE, unpack
from packhorse.model.finding import Grade
from packhorse.model.job import State
from packhorse.stores import open_store
from packhorse.stores.sqlite import database as databases
from packhorse.stores.sqlite import write_batch
from packhorse.stores.sqlite.file import BUSY_SECONDS, File
from packhorse.stores.sqlite.store import SQLiteStore
from packhorse.testing import TurnedClock
from tests.factories import DAY, HOUR, MINUTE, new, put_in, take


async def opened(path: Path | str, **options: Any) -> SQLiteStore:
    store = open_store(f"sqlite:///{path}", **options)
    assert isinstance(store, SQLiteStore)
    await store.migrate()
    await store.open()
    return store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = await opened(tmp_path / "store.db")
    yield store
    await store.close()


def file_of(store: SQLiteStore) -> File:
    return store._handle.database.file


async def grade(store: SQLiteStore, name: str) -> Grade:
    return next(finding.grade for finding in await store.examine() if finding.name == name)


# -- what a handler leaves behind


@pytest.fixture(params=["file", "memory"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    app = App(f"sqlite:///{tmp_path}/app.db" if request.param == "file" else "sqlite:///:memory:")

    async with app:
        yield app


def speaker(app: App) -> Callable[..., Awaitable[int]]:
    """Runs statements in the transaction of a job."""

    @app.task(name="say", transaction=True, attempts=1)
    async def say(statements: list[str]) -> int:
        return [await current().tx.execute(sql) for sql in statements][-1]

    async def run_all(*statements: str) -> int:
        return await (await say.enqueue(list(statements))).result(timeout=10)

    return run_all


async def test_what_a_handler_sets_on_its_connection_does_not_meet_the_next_job(app: App, tmp_path: Path):
    run_all = speaker(app)
    async with app.worker():
        await run_all("CREATE TABLE orders (n INTEGER CHECK (n > 0))")
        for _ in range(2):
            await run_all("CREATE TEMP TABLE orders (n INTEGER)", "INSERT INTO orders VALUES (1)")
        await run_all("PRAGMA ignore_check_constraints = ON")
        with pytest.raises(JobFailed, match="CHECK constraint"):
            await run_all("INSERT INTO orders VALUES (-1)")
        with pytest.raises(JobFailed, match="readonly"):
            await run_all("\ufeff/* mine */ PRAGMA query_only = ON")
        await run_all(f"ATTACH '{tmp_path}/other.db' AS other")
        with pytest.raises(JobFailed, match="unknown database"):
            await run_all("CREATE TABLE other.t (n)")

        assert await run_all("INSERT INTO orders VALUES (1), (2)") == 2
        assert await run_all("DELETE FROM main.orders") == 2


async def test_foreign_keys_are_checked_if_the_address_says_so(tmp_path: Path):
    for address in (f"{tmp_path}/keys.db", ":memory:"):
        app = App(f"sqlite:///{address}?foreign_keys=on")
        run_all = speaker(app)
        async with app, app.worker():
            await run_all("CREATE TABLE a (id INTEGER PRIMARY KEY)", "CREATE TABLE b (a INTEGER REFERENCES a (id))")
            with pytest.raises(JobFailed, match="FOREIGN KEY"):
                await run_all("INSERT INTO b VALUES (1)")


# -- paths, links, locks, rights


async def test_a_relative_path_leads_to_the_same_file_after_a_change_of_folder_and_a_fork(tmp_path: Path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    store = await opened("store.db")
    os.chdir(tmp_path / "elsewhere")
    forked(lambda: None)

    await put_in(store, new())
    transaction = store.transaction(MINUTE)
    await transaction.execute("CREATE TABLE mine (n)")
    await transaction.roll_back()
    await store.close()

    assert not list((tmp_path / "elsewhere").iterdir())


def locked(file: File) -> bool:
    """Whether somebody holds the lock of this file, asked with a descriptor of its own."""
    asking = os.open(file.lock.path, os.O_RDWR)
    try:
        fcntl.flock(asking, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(asking)
    return False


async def test_two_names_of_a_file_share_its_lock_and_its_journal(store: SQLiteStore, tmp_path: Path):
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    linked = await opened(tmp_path / "link.db")
    await put_in(store, new())
    try:
        assert file_of(linked)._journal() == file_of(store)._journal() > 0
        with file_of(store).lock:
            assert locked(file_of(linked))
        assert [path.name for path in tmp_path.glob("*.lock")] == ["store.db.lock"]
    finally:
        await linked.close()


async def test_a_lock_file_that_was_removed_is_shared_again_after_the_next_writes(store: SQLiteStore, tmp_path: Path):
    (tmp_path / "store.db.lock").unlink()
    assert await grade(store, "lock file") is Grade.WARN
    other = await opened(tmp_path / "store.db")
    try:
        file_of(store)._next_check = 0  # a second later
        await put_in(store, new())

        with file_of(store).lock:
            assert locked(file_of(other))
        assert await grade(store, "lock file") is Grade.OK
    finally:
        await other.close()


async def test_threads_of_a_process_hold_the_lock_one_after_the_other(store: SQLiteStore):
    lock, other = file_of(store).lock, threading.Event()

    def hold() -> None:
        with lock:
            other.set()
        lock.let_go()

    with lock:
        threads = [threading.Thread(target=act) for act in (hold, lock.let_go)]
        for thread in threads:
            thread.start()
        assert not other.wait(0.05)
        assert locked(file_of(store))  # to close its file would end it
    for thread in threads:
        thread.join()
    assert other.is_set()


async def test_the_lock_file_has_the_rights_of_its_file(tmp_path: Path):
    path, before = tmp_path / "shared.db", os.umask(0o022)
    try:
        path.touch()
        path.chmod(0o666)
        await (await opened(path)).close()
    finally:
        os.umask(before)

    assert (tmp_path / "shared.db.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("what", ["deleted", "replaced"])
async def test_a_worker_stops_when_its_file_was_deleted_or_replaced(tmp_path: Path, what: str):
    path, app = tmp_path / "gone.db", App(f"sqlite:///{tmp_path}/gone.db")
    async with app:
        worker = await app.worker().__aenter__()
        if what == "deleted":
            path.unlink()
        else:
            (tmp_path / "new.db").touch()
            (tmp_path / "new.db").replace(path)
        await asyncio.wait_for(worker.stopped(), 20)
        with pytest.raises(StoreDamaged, match="deleted or replaced"):
            await worker.__aexit__(None, None, None)
        store = await app.store()
        assert await grade(store, "file") is Grade.BAD  # type: ignore[arg-type]


async def test_stores_opened_and_closed_on_several_loops_leave_no_threads(tmp_path: Path):
    store = await opened(tmp_path / "store.db")
    await store.close()

    async def once() -> None:
        clone = store.clone()
        await clone.open()
        await put_in(clone, new())
        await clone.close()

    def often() -> None:
        for _ in range(40):
            asyncio.run(asyncio.wait_for(once(), 20))

    threads = [threading.Thread(target=often) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("packhorse-sqlite")] == []
    assert store._handle.database._writing is None


# -- forks


def forked(work: Any) -> str:
    """What a forked child has to say."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        work()
        theirs.send("done")

    def in_child() -> None:
        try:
            run()
        except Exception as error:
            theirs.send(f"{type(error).__name__}: {error}")

    child = context.Process(target=in_child)
    child.start()
    word = str(ours.recv())
    child.join()
    return word


@pytest.mark.parametrize("address", ["file.db", ":memory:"])
async def test_a_handler_forks_in_the_middle_of_its_transaction(tmp_path: Path, address: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = App(f"sqlite:///{address}")

    def open_again() -> None:
        asyncio.run(opened(address))

    def write_and_fork() -> str:
        current().tx.execute("CREATE TABLE mine (n)")
        current().tx.execute("INSERT INTO mine VALUES (1)")
        subprocess.run(["true"], preexec_fn=os.setsid, check=True)
        word = forked(open_again)
        current().tx.execute("INSERT INTO mine VALUES (2)")
        return word

    @app.task(name="plain", transaction=True, attempts=1)
    def plain() -> str:
        return write_and_fork()

    @app.task(name="count", transaction=True, attempts=1)
    async def count() -> int:
        return int(await current().tx.fetchval("SELECT count(*) FROM mine"))

    async with app, app.worker():
        word = await (await plain.enqueue()).result(timeout=20)
        assert await (await count.enqueue()).result(timeout=20) == 2
    if address == "file.db":
        assert word.startswith("StoreUnavailable: This process was forked while")


async def test_a_fork_does_not_wait_for_another_programs_transaction(store: SQLiteStore):
    with contextlib.closing(sqlite3.connect(file_of(store).path, isolation_level=None)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(put_in(store, new()))
        await asyncio.sleep(0.02)
        before = waiting.get_loop().time()
        assert (forked(lambda: None), waiting.get_loop().time() - before < BUSY_SECONDS / 2) == ("done", True)
        mine.execute("COMMIT")
        assert len(await asyncio.wait_for(waiting, 10)) == 1


# -- other programs


async def test_calls_behind_another_programs_transaction_fail_together(store: SQLiteStore, monkeypatch):
    monkeypatch.setattr(write_batch, "BUSY_SECONDS", 0.5)
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.5)
    with contextlib.closing(sqlite3.connect(file_of(store).path, isolation_level=None)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        transaction = store.transaction(MINUTE)
        calls: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(store.queues.pause([f"queue {number}"])) for number in range(20)
        ]
        calls.append(asyncio.ensure_future(transaction.execute("SELECT 1")))
        answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
        mine.execute("COMMIT")

    assert {type(answer) for answer in answers} == {StoreUnavailable}
    await put_in(store, new())


# -- clocks


class Set(TurnedClock):
    """A clock that can be set back, beside a steady one."""

    def __init__(self) -> None:
        super().__init__()
        self.off = 0

    def now(self) -> int:
        return super().now() + self.off


async def test_time_goes_on_after_the_clock_was_ahead_once_and_the_doctor_tells(tmp_path: Path):
    clock = Set()
    store = await opened(tmp_path / "store.db", clock=clock)
    try:
        clock.off = DAY
        await put_in(store, new("first"))
        clock.off = 0
        await put_in(store, new("later", delay=MINUTE))
        assert await grade(store, "clock") is Grade.WARN
        assert [lease.task for lease in await take(store)] == ["first"]
        ahead = await store.ping() - clock.now()
        clock.turn(2 * MINUTE)
        assert [lease.task for lease in await take(store)] == ["later"]
        assert 0 < await store.ping() - clock.now() < ahead

        clock.turn(11 * DAY)
        assert await store.ping() == clock.now()
        await put_in(store, new())
        assert await grade(store, "clock") is Grade.OK
        clock.off = -HOUR
        before = await store.ping()
        clock.turn(MINUTE)
        assert before < await store.ping() < before + MINUTE
    finally:
        await store.close()


# -- the table for other languages


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("t", '{"unique": {"key": "k\\u0001"}}'), ("t", '{"unique": {"key": "k\\u007f"}}'), ("t", '{"key": "k\\u0000z"}'),
        ("t", '{"unique": {"key": "k\\u0000"}}'), ("t", '{"queue": "\\u0000"}'), ("t\0x", "{}"),
    ],
)  # fmt: skip
async def test_the_table_for_other_languages_refuses_control_characters(store: SQLiteStore, task: str, options: str):
    with contextlib.closing(sqlite3.connect(file_of(store).path)) as other, pytest.raises(sqlite3.IntegrityError):
        other.execute("INSERT INTO packhorse_enqueue (task, options) VALUES (?, ?)", (task, options))


async def test_what_another_language_enqueued_is_reported_in_the_log_as_any_other_job(store: SQLiteStore):
    with contextlib.closing(sqlite3.connect(file_of(store).path)) as other, other:
        other.execute("INSERT INTO packhorse_enqueue (task, options) VALUES ('t', ?)", ('{"key": "a \\\\u0000"}',))
    [event] = await store.streams.read(LIFECYCLE)
    [lease] = await take(store)

    assert [job for _, job in unpack(event.data)] == [lease.id]


async def test_a_job_of_another_language_does_not_overtake_one_of_its_lane_that_came_due(tmp_path: Path):
    store = await opened(tmp_path / "store.db", clock=TurnedClock())
    try:
        [first] = await put_in(store, new(lane="a", delay=MINUTE))
        with contextlib.closing(sqlite3.connect(file_of(store).path)) as other, other:
            other.execute("INSERT INTO packhorse_enqueue (task, options) VALUES ('t', ?)", ('{"key": "a"}',))
        assert [lease.id for lease in await take(store)] == [first]
        assert (await store.jobs.count())["default"][State.WAITING] == 1
    finally:
        await store.close()
