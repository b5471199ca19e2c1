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
from tests.making import new, put_in, take

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
    monkeypatch.setattr(wakes, "POLL_FIRST", 3600)
    monkeypatch.setattr(wakes, "POLL_LAST", 3600)
    monkeypatch.setattr(wakes, "POLL_HEARING", 3600)


class Heard:
    """Counts hints."""

    def __init__(self) -> None:
        self.times = 0

    async def until(self, times: int) -> None:
        async with asyncio.timeout(SOON):
            while self.times < times:
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def listening(store: Store, topic: Topic) -> AsyncIterator[Heard]:
    """How often the store hinted."""
    heard = Heard()

    async def listen() -> None:
        async for _ in store.wakes(topic):
            heard.times += 1

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)  # lets the listener begin
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled() -> None:
    """Let the loop see whatever is there to be seen."""
    for _ in range(20):
        await asyncio.sleep(0.001)


def ears() -> set[Path]:
    """What this process hears with."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "inotify" in str(file.readlink()):
                found.add(file)
    return found


@LINUX
async def test_a_commit_of_another_process_is_heard_without_looking(store: Store, url: str, unlooked: None):
    async with listening(store, Topic.WORK) as heard:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", ENQUEUE, url], check=True)
        await heard.until(1)

    assert len(await take(store)) == 1


@LINUX
async def test_ends_are_heard_by_those_who_wait_for_them_and_work_is_not(store: Store, other: Store, unlooked: None):
    await put_in(store, new())
    [lease] = await take(store)
    async with listening(store, Topic.ENDS) as ends, listening(store, Topic.WORK) as work:
        await other.jobs.exchange([Settlement(lease, Done())])
        await ends.until(1)
        await settled()

        assert (ends.times, work.times) == (1, 0)


@LINUX
async def test_what_this_process_commits_wakes_it_once(store: Store, unlooked: None):
    async with listening(store, Topic.WORK) as heard:
        await put_in(store, new())
        await heard.until(1)
        await settled()

        assert heard.times == 1


@LINUX
async def test_a_notice_that_is_written_over_by_ones_own_is_heard(store: Store, other: Store, unlooked: None):
    async with listening(store, Topic.WORK) as heard:
        for _ in range(20):
            heard.times = 0
            await asyncio.gather(put_in(other, new()), put_in(store, new()))
            await heard.until(1)


async def test_where_too_many_listen_already_one_looks(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch):
    class Exhausted:
        inotify_init1 = staticmethod(lambda _flags: -1)

    monkeypatch.setattr(notices, "_libc", Exhausted)
    async with listening(store, Topic.WORK) as heard:
        await put_in(other, new())
        await heard.until(1)


async def test_where_no_more_files_can_be_heard_of_one_looks(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
):
    read, write = os.pipe()

    class Exhausted:
        inotify_init1 = staticmethod(lambda _flags: os.dup(write))
        inotify_add_watch = staticmethod(lambda _file, _path, _mask: -1)

    monkeypatch.setattr(notices, "_libc", Exhausted)
    async with listening(store, Topic.WORK) as heard:
        await put_in(other, new())
        await heard.until(1)

    os.close(write)
    os.set_blocking(read, False)
    assert os.read(read, 1) == b""  # nobody has the other end
    os.close(read)


async def test_where_there_is_no_inotify_one_looks(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notices, "_libc", lambda: None)
    async with listening(store, Topic.WORK) as heard:
        await put_in(other, new())
        await heard.until(1)


@LINUX
async def test_who_listens_no_more_has_nothing_open(store: Store):
    before = ears()
    for _ in range(5):
        async with listening(store, Topic.WORK), listening(store, Topic.ENDS):
            assert len(ears() - before) == 2

    assert ears() == before


@LINUX
async def test_a_forked_child_hears_nothing_and_its_parent_goes_on(store: Store, other: Store, unlooked: None):
    before = ears()
    async with listening(store, Topic.WORK) as heard:
        pid = os.fork()
        if pid == 0:
            os._exit(len(ears() - before))
        _, status = os.waitpid(pid, 0)
        await put_in(other, new())
        await heard.until(1)

    assert os.waitstatus_to_exitcode(status) == 0
