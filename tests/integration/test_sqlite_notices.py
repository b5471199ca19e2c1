"""Notices between processes: who commits tells who sleeps, without anybody looking."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.stores import open_store
from packhorse.stores.contract import Store, Topic
from packhorse.stores.sqlite import notices, wakes
from tests.factories import new, put_in, take

SOON = 10
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
ENQUEUE = """
import asyncio, sys
from packhorse.model.job import NewJob
from packhorse.stores import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    await store.jobs.enqueue([NewJob(task="work")])
    await store.close()

asyncio.run(main())
"""
PUBLISH = """
import asyncio, sys
from packhorse.model.effect import Publish
from packhorse.stores import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    await store.streams.publish([Publish("news", b"1")])
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = open_store(url)
    await made.migrate()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def other(store: Store, url: str) -> AsyncIterator[Store]:
    """The same file, as another process would have it."""
    made = open_store(url)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def unlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the file by himself."""
    monkeypatch.setattr(wakes, "POLL_MIN_SECONDS", 3600)
    monkeypatch.setattr(wakes, "POLL_MAX_SECONDS", 3600)
    monkeypatch.setattr(wakes, "POLL_WATCHED_SECONDS", 3600)


class HintCounter:
    """Counts hints."""

    def __init__(self) -> None:
        self.times = 0

    async def until(self, times: int) -> None:
        async with asyncio.timeout(SOON):
            while self.times < times:
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def listening(store: Store, topic: Topic) -> AsyncIterator[HintCounter]:
    """How often the store hinted."""
    counter = HintCounter()

    async def listen() -> None:
        async for _ in store.wakes(topic):
            counter.times += 1

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)  # lets the listener begin
    try:
        yield counter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled() -> None:
    """Let the loop see whatever is there to be seen."""
    for _ in range(20):
        await asyncio.sleep(0.001)


def watched_files() -> set[Path]:
    """What this process hears with."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "inotify" in str(file.readlink()):
                found.add(file)
    return found


@LINUX
async def test_a_commit_of_another_process_is_noticed_without_looking(store: Store, url: str, unlooked: None):
    async with listening(store, Topic.WORK) as counter:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", ENQUEUE, url], check=True)
        await counter.until(1)

    assert len(await take(store)) == 1


@LINUX
async def test_ends_wake_those_who_wait_for_them_and_work_is_not(store: Store, other: Store, unlooked: None):
    await put_in(store, new())
    [lease] = await take(store)
    async with listening(store, Topic.ENDS) as ends, listening(store, Topic.WORK) as work:
        await other.jobs.exchange([Settlement(lease, Done())])
        await ends.until(1)
        await settled()

        assert (ends.times, work.times) == (1, 0)


@LINUX
async def test_what_this_process_commits_wakes_it_once(store: Store, unlooked: None):
    async with listening(store, Topic.WORK) as counter:
        await put_in(store, new())
        await counter.until(1)
        await settled()

        assert counter.times == 1


@LINUX
async def test_a_notice_that_is_written_over_by_ones_own_is_noticed(store: Store, other: Store, unlooked: None):
    async with listening(store, Topic.WORK) as counter:
        for _ in range(20):
            counter.times = 0
            await asyncio.gather(put_in(other, new()), put_in(store, new()))
            await counter.until(1)


async def test_where_too_many_listen_already_one_looks(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch):
    class Exhausted:
        inotify_init1 = staticmethod(lambda _flags: -1)

    monkeypatch.setattr(notices, "_libc", Exhausted)
    async with listening(store, Topic.WORK) as counter:
        await put_in(other, new())
        await counter.until(1)


async def test_where_no_more_files_can_be_watched_one_looks(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
):
    read, write = os.pipe()

    class Exhausted:
        inotify_init1 = staticmethod(lambda _flags: os.dup(write))
        inotify_add_watch = staticmethod(lambda _file, _path, _mask: -1)

    monkeypatch.setattr(notices, "_libc", Exhausted)
    async with listening(store, Topic.WORK) as counter:
        await put_in(other, new())
        await counter.until(1)

    os.close(write)
    os.set_blocking(read, False)
    assert os.read(read, 1) == b""  # nobody has the other end
    os.close(read)


async def test_where_there_is_no_inotify_one_looks(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notices, "_libc", lambda: None)
    async with listening(store, Topic.WORK) as counter:
        await put_in(other, new())
        await counter.until(1)


@LINUX
async def test_who_listens_no_more_has_nothing_open(store: Store):
    before = watched_files()
    for _ in range(5):
        async with listening(store, Topic.WORK), listening(store, Topic.ENDS):
            assert len(watched_files() - before) == 2

    assert watched_files() == before


@LINUX
async def test_a_forked_child_hears_nothing_and_its_parent_goes_on(store: Store, other: Store, unlooked: None):
    before = watched_files()
    async with listening(store, Topic.WORK) as counter:
        pid = os.fork()
        if pid == 0:
            os._exit(len(watched_files() - before))
        _, status = os.waitpid(pid, 0)
        await put_in(other, new())
        await counter.until(1)

    assert os.waitstatus_to_exitcode(status) == 0


@LINUX
async def test_a_publish_of_another_process_is_noticed_without_looking(store: Store, url: str, unlooked: None):
    async with contextlib.aclosing(store.streams.wakes("news")) as hints:
        await anext(hints)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", PUBLISH, url], check=True)
        async with asyncio.timeout(SOON):
            while not await store.streams.read("news"):
                await anext(hints)
