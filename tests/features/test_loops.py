"""An app used on one event loop after another: nothing of a loop that has ended is kept."""

import asyncio
import contextlib
import multiprocessing
import os
import threading
import weakref
from pathlib import Path

import pytest

from packhorse import App
from tests.conftest import namespace
from tests.factories import open_files
from tests.features.factories import PATIENCE, run


def test_loops_that_have_ended_leave_no_connection_and_no_loop_behind(kind: str, url: str):
    app = App(url, namespace=namespace(kind))
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    @app.task(name="note")
    async def note(number: int) -> None: ...

    async def call(number: int) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        job = await note.enqueue(number)
        assert await job.state() == "ready"
        with contextlib.suppress(TimeoutError):
            await job.result(0.01)

    before = open_files()
    for number in range(5):
        asyncio.run(call(number))

    assert open_files() <= before
    assert sum(loop() is not None for loop in loops) <= 1


def test_loops_of_several_threads_are_opened_and_closed_side_by_side(kind: str, url: str):
    app = App(url, namespace=namespace(kind))
    failed: list[BaseException] = []

    @app.task(name="note")
    async def note(number: int) -> None: ...

    def call(thread: int) -> None:
        try:
            for number in range(4):
                asyncio.run(note.using(id=f"{thread}/{number}").enqueue(number))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert failed == []
    assert asyncio.run(ready(app)) == 16


async def ready(app: App) -> int:
    return (await app.queue("default").counts())["ready"]


def test_what_is_in_memory_lives_as_long_as_its_app():
    app, done = App("sqlite:///:memory:"), []

    @app.task
    async def note(number: int) -> None:
        done.append(number)

    async def enqueue_and_close() -> None:
        await note.enqueue(1)
        await app.close()
        await note.enqueue(2)

    asyncio.run(enqueue_and_close())
    asyncio.run(run(app))

    assert done == [1, 2]


@pytest.mark.parametrize("folder", ["home", "h o?m#e%41é", os.fsdecode(b"caf\xe9")])
def test_an_app_with_a_relative_file_finds_it_in_a_process_forked_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
):
    home, elsewhere = tmp_path / folder, tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(home)
    app = App("sqlite:///shop.db?synchronous=normal")

    @app.task(name="note")
    async def note(number: int) -> None: ...

    os.chdir(elsewhere)
    child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(note.enqueue(1)))
    child.start()
    child.join(PATIENCE)

    assert child.exitcode == 0
    assert asyncio.run(ready(app)) == 1
    assert list(elsewhere.iterdir()) == []
