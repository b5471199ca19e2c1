"""Files that cannot be a store: each is refused at open with an error that says what to do."""

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from packhorse.errors import ConfigError, DurabilityNotMet, SchemaMismatch, StoreDamaged, StoreUnavailable
from packhorse.model.finding import Durability, Grade
from packhorse.model.job import State
from packhorse.stores import open_store
from packhorse.stores.sqlite import disk
from packhorse.stores.sqlite.diagnostics import SYNCHRONOUS
from packhorse.stores.sqlite.file import FIRST_SAFE_VERSION, File, tell_of_old_library
from packhorse.stores.sqlite.store import SQLiteStore
from packhorse.stores.sqlite.unit_of_work import SQL, UnitOfWork
from tests.engine.factories import at_once, worker
from tests.factories import new, put_in, state

NOBODY = 65534
PAGE = 4096


async def opened_once(path: Path | str) -> None:
    """Open a store, bring it up to date and close it."""
    store = open_store(f"sqlite:///{path}")
    try:
        await store.migrate()
        await store.open()
    finally:
        await store.close()


async def test_a_store_that_opens_while_another_lets_go_of_the_file_can_be_used(tmp_path: Path, monkeypatch):
    path, usual, letting_go = tmp_path / "store.db", File.connection, list[threading.Thread]()
    await opened_once(path)
    store = open_store(f"sqlite:///{path}")
    assert isinstance(store, SQLiteStore)

    def meanwhile(file: File, uri: str = "") -> sqlite3.Connection:
        connection = usual(file, uri)
        letting_go.append(threading.Thread(target=store._handle.database.forget))  # as the last of its users does
        letting_go[-1].start()
        letting_go[-1].join(0.05)  # it gets as far as it can
        return connection

    monkeypatch.setattr(File, "connection", meanwhile)
    await store.open()
    for thread in letting_go:
        await asyncio.to_thread(thread.join)
    monkeypatch.undo()

    assert len(letting_go) > 1
    async with asyncio.timeout(10):
        [job] = await put_in(store, new())
        assert await state(store, job) is State.READY
    await store.close()


async def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="is a folder: name a file in it"):
        await opened_once(tmp_path)


async def test_missing_folders_are_made(tmp_path: Path):
    await opened_once(tmp_path / "not" / "there" / "store.db")
    assert (tmp_path / "not" / "there" / "store.db").exists()


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await opened_once(tmp_path / "file" / "store.db")


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(ConfigError, match="is no SQLite database"):
        await opened_once(path)
    assert path.read_text() == "Dear diary, " * 1000


@pytest.mark.parametrize("table", ["packhorse_jobs", "packhorse_migrations"])
async def test_a_database_with_other_tables_of_our_names_is_refused_and_left_as_it_is(tmp_path: Path, table: str):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, title TEXT)")
        before = list(other.iterdump())
    with pytest.raises(SchemaMismatch, match=rf"{table}.*of another program: use another file for the store"):
        await opened_once(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert list(other.iterdump()) == before


async def test_a_database_of_the_users_own_may_hold_a_store_too(tmp_path: Path):
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
    await opened_once(path)
    await opened_once(path)


async def test_a_damaged_file_is_reported_at_open(tmp_path: Path):
    path = tmp_path / "store.db"
    await opened_once(path)
    damage(path, 1)
    with pytest.raises(StoreDamaged, match="restore a backup"):
        await opened_once(path)


async def test_a_damaged_page_is_reported_by_the_call_that_meets_it(tmp_path: Path):
    path = tmp_path / "store.db"
    await opened_once(path)
    with contextlib.closing(sqlite3.connect(path)) as plain:
        (root,) = plain.execute("SELECT rootpage FROM sqlite_master WHERE name = 'packhorse_jobs'").fetchone()
    damage(path, root)
    store = open_store(f"sqlite:///{path}")
    await store.open()
    try:
        with pytest.raises(StoreDamaged):
            await put_in(store, new())
    finally:
        await store.close()


async def test_a_worker_stops_at_a_damaged_page(tmp_path: Path):
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.migrate()
    await store.open()
    await put_in(store, new())
    await store.close()  # the last one writes all pages to the file
    with contextlib.closing(sqlite3.connect(path)) as plain:
        (root,) = plain.execute("SELECT rootpage FROM sqlite_master WHERE name = 'packhorse_jobs'").fetchone()
    damage(path, root)
    await store.open()
    try:
        working = await worker(store, at_once()).__aenter__()
        await asyncio.wait_for(working.stopped(), 20)
        with pytest.raises(StoreDamaged, match="restore a backup"):
            await working.__aexit__(None, None, None)
    finally:
        await store.close()


def damage(path: Path, page: int) -> None:
    """Overwrite a page, but not the header of the file."""
    start = 100 if page == 1 else 0
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + start)
        file.write(b"\xff" * (PAGE - start))


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="packhorse-open-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


ANOTHER_USER = """
import asyncio, os, sys
from packhorse.errors import PackhorseError
from packhorse.stores import open_store
from packhorse.stores.sqlite import store
if os.geteuid() == 0:
    os.setuid({nobody})
async def main():
    store = open_store(sys.argv[1])
    try:
        await store.open()
    except PackhorseError as error:
        print(type(error).__name__, error)
asyncio.run(main())
"""


def as_another_user(path: Path) -> str:
    program = ANOTHER_USER.format(nobody=NOBODY)
    done = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{path}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_file_or_folder_that_may_only_be_read_is_reported(shared: Path, what: str):
    path = shared / "store.db"
    await opened_once(path)
    (path if what == "file" else shared).chmod(0o444 if what == "file" else 0o555)

    given = as_another_user(path)

    assert given.startswith("StoreUnavailable")
    assert "must have the right to write" in given


async def test_whoever_may_write_to_the_file_may_take_turns_in_it(shared: Path):
    path = shared / "store.db"
    old = os.umask(0)
    try:
        path.touch(0o666)
        await opened_once(path)
    finally:
        os.umask(old)
    shared.chmod(0o777)

    assert as_another_user(path) == ""


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the table of mounts says to be on another machine."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/srv {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(disk, "MOUNTS", mounts)
    return tmp_path


async def test_a_network_file_system_is_refused_before_anything_is_made(remote: Path):
    with pytest.raises(DurabilityNotMet, match=r"network file system \(nfs4\).*unsafe_network=yes"):
        await opened_once(remote / "new" / "store.db")
    assert not (remote / "new").exists()


async def test_a_network_file_system_may_be_put_up_with_and_what_is_lost_is_reported(remote: Path, caplog):
    with caplog.at_level(logging.WARNING, logger="packhorse"):
        await opened_once(f"{remote}/store.db?unsafe_network=yes")
    assert "no guarantee holds" in caplog.text


@pytest.mark.parametrize(
    "query",
    [
        "unsafe_network=perhaps", "unsafe_network", "mode=ro", "unsafe_network=yes&cache=shared",
        "foreign_keys", "foreign_keys=1", "synchronous=off", "synchronous", "synchronous=1", "synchronous=extra&synchronous=normal",
    ],
)  # fmt: skip
def test_an_address_that_says_something_else_is_refused(query: str):
    with pytest.raises(
        ConfigError, match="synchronous=full or normal, foreign_keys=off or on, unsafe_network=yes or no"
    ):
        open_store(f"sqlite:///store.db?{query}")


@pytest.mark.parametrize(
    ("query", "level", "kept"),
    [
        ("", "FULL", Durability.OS),
        ("?synchronous=full", "FULL", Durability.OS),
        ("?synchronous=NORMAL", "NORMAL", Durability.PROCESS),
    ],
)
async def test_commits_are_synced_as_the_address_says_and_the_class_is_reported(tmp_path: Path, query, level, kept):
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}{query}")
    await store.migrate()
    await store.open()
    try:
        found = {finding.name: finding for finding in await store.examine()}
        assert isinstance(store, SQLiteStore)
        ways = [await store._handle.read(in_force), await store._handle.write(in_force)]
    finally:
        await store.close()

    assert ways == [SYNCHRONOUS.index(level)] * 2
    assert found["synchronous"].value == level
    assert found["durability"].value.startswith(f"{kept}:")
    assert found["durability"].grade is (Grade.OK if kept is Durability.OS else Grade.WARN)


def in_force(step: UnitOfWork) -> int:
    """How the connection of a step syncs."""
    return step.row(SQL.in_force)[1]


async def test_an_old_library_is_reported_once_in_a_process(tmp_path: Path, caplog, monkeypatch):
    monkeypatch.setattr(
        sqlite3, "sqlite_version_info", (FIRST_SAFE_VERSION[0], FIRST_SAFE_VERSION[1], FIRST_SAFE_VERSION[2] - 1)
    )
    tell_of_old_library.cache_clear()
    with caplog.at_level(logging.INFO, logger="packhorse"):
        await opened_once(tmp_path / "one.db")
        await opened_once(tmp_path / "two.db")
    assert caplog.text.count("a rare race of checkpoints can lose a commit") == 1


async def test_a_store_outlives_its_lock_file_and_its_journal(tmp_path: Path):
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.migrate()
    await store.open()
    [job] = await put_in(store, new())
    await store.close()
    assert not Path(f"{path}-wal").exists(), "the last one out brings the journal into the file"
    Path(f"{path}.lock").unlink()

    again = open_store(f"sqlite:///{path}")
    await again.open()
    try:
        assert await state(again, job) is not None
    finally:
        await again.close()
