"""The disk below the file: full and freed again, a journal that stays short, copies made while jobs flow."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from packhorse.stores.sqlite import file
from packhorse.testing import TurnedClock
from tests.conformance.invariants import check
from tests.factories import found, new, put_in, take
from tests.integration.torn import LONG

ROUNDS = 100 if LONG else 5
OWN_DISK = 'mount -t tmpfs -o size=24m tmpfs "$0" && exec "$@"'


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/store.db", clock=TurnedClock())
    await store.migrate()
    await store.open()
    yield store
    await store.close()


def reported(folder: Path, *options: str, disk: bool) -> dict[str, Any]:
    """What happened in a process that filled its disk."""
    command = [sys.executable, "-m", "tests.integration.full_disk", str(folder), str(ROUNDS), *options]
    own = ["unshare", "--map-root-user", "--mount", "sh", "-c", OWN_DISK, str(folder)] if disk else []
    done = subprocess.run([*own, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def disks_can_be_made() -> bool:
    """Whether this user may mount something in a space of its own."""
    trying = ["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return bool(shutil.which("unshare")) and subprocess.run(trying, capture_output=True, check=False).returncode == 0


def test_a_full_disk_loses_nothing_and_work_goes_on_when_it_is_freed(tmp_path: Path):
    disk = disks_can_be_made()
    happened = reported(tmp_path, *([] if disk else [str(4_000_000)]), disk=disk)

    assert happened["lost"] == 0
    assert happened["integrity"] == ["ok"]
    assert sum(happened["verdicts"].values()) == 10 * ROUNDS
    assert set(happened["verdicts"]) <= {"written", "repeated"}
    if disk:
        assert happened["refusals"] == {"StoreFull": 2 * ROUNDS}, (
            "an enqueue and a settlement a round, none of them unsure"
        )
        assert happened["settled_when_full"] == 50, "a journal that has room of its own is used again"


def test_files_that_may_not_grow_lose_nothing(tmp_path: Path):
    happened = reported(tmp_path, str(4_000_000), disk=False)

    assert happened["lost"] == 0
    assert happened["integrity"] == ["ok"]
    assert set(happened["refusals"]) <= {"StoreUnavailable", "OutcomeUnknown"}


async def write(store: Store, count: int) -> None:
    """Some megabytes."""
    for _ in range(count):
        await put_in(store, *(new(payload=b'"' + b"x" * 20_000 + b'"') for _ in range(20)))
        await store.jobs.exchange([Settlement(lease, Done()) for lease in await take(store, 20)])


async def test_the_journal_stays_short_while_others_read_without_a_pause(store: Store, tmp_path: Path, monkeypatch):
    """Each of two begins before the other ends, so at every commit somebody still needs what is in the journal."""
    monkeypatch.setattr(file, "LONG_JOURNAL", 24 << 20)
    monkeypatch.setattr(file, "READERS_RETRY_MAX_US", 0)
    path, longest, over = tmp_path / "store.db", 0, threading.Event()
    turns = [threading.Event(), threading.Event()]

    def read(mine: threading.Event, others: threading.Event) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            while not over.is_set():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM packhorse_moment").fetchone()
                others.set()
                mine.wait(1)  # the other may be held up
                mine.clear()
                over.wait(0.03)
                connection.execute("COMMIT")
            others.set()

    readers = [threading.Thread(target=read, args=(turns[n], turns[1 - n])) for n in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(30):
            await write(store, 8)
            longest = max(longest, Path(f"{path}-wal").stat().st_size)
    finally:
        over.set()
        for reader in readers:
            reader.join()

    assert longest < 3 * (24 << 20), f"{longest:,}"


async def test_a_reader_that_stays_keeps_the_journal_only_as_long_as_it_stays(
    store: Store, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(file, "LONG_JOURNAL", 1 << 20)
    monkeypatch.setattr(file, "READERS_RETRY_MAX_US", 0)
    monkeypatch.setattr(file, "READERS_WAIT_MS", 1)
    journal = Path(f"{tmp_path}/store.db-wal")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM packhorse_jobs").fetchone()
        await write(store, 10)
        assert journal.stat().st_size > 4 << 20
    await write(store, 1)

    assert journal.stat().st_size < 1 << 20


async def flow(store: Store, stored: list[bytes]) -> None:
    """Jobs that come and go until this is cancelled."""
    while True:
        stored += await put_in(store, *(new() for _ in range(10)))
        await store.jobs.exchange([Settlement(lease, Done()) for lease in await take(store, 5)])


@pytest.mark.parametrize("way", ["backup", "vacuum into"])
async def test_a_copy_made_while_jobs_flow_is_whole_and_holds_what_was_acknowledged_before(
    store: Store, tmp_path: Path, way: str
):
    stored: list[bytes] = []
    flowing = asyncio.create_task(flow(store, stored))
    try:
        for number in range(3):
            while len(stored) < 200 * (number + 1):
                await asyncio.sleep(0)
            before = set(stored)
            target = tmp_path / f"copy{number}.db"
            await asyncio.to_thread(copied, tmp_path / "store.db", target, way)
            await holds(target, before)
    finally:
        flowing.cancel()
        with suppress(asyncio.CancelledError):
            await flowing
    assert len(await found(store, limit=1000)) >= len(stored)


def copied(source: Path, target: Path, way: str) -> None:
    with closing(sqlite3.connect(source)) as old:
        if way == "backup":
            with closing(sqlite3.connect(target)) as new_file:
                old.backup(new_file, pages=20)
        else:
            old.execute("VACUUM INTO ?", (str(target),))


async def holds(path: Path, jobs: set[bytes]) -> None:
    """A copy opens as a store, is sound and has these jobs."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    copy = open_store(f"sqlite:///{path}", clock=TurnedClock())
    await copy.open()
    try:
        await check(copy)
        assert jobs <= {job.id for job in await found(copy, limit=1000)}
    finally:
        await copy.close()
