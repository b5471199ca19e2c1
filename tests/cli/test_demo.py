"""The demo as people run it: on each store, on a terminal, stopped, out of time; nothing is left behind."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from packhorse import App
from packhorse.model.worker import WorkerInfo
from packhorse_demo import scenes
from packhorse_demo.demo_store import NAMESPACE, count_jobs
from tests.cli.shell import COMMAND, Ended, Shell
from tests.conftest import kinds, wipe
from tests.factories import HOUR, WORKER

PATIENCE = 120
CTRL_C = "\x03"
THEIRS = "packhorse_theirs"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A folder to run the demo in, whose temporary files go to a folder of their own."""
    folder = tmp_path / "here"
    for each in (folder, tmp_path / "temporary"):
        each.mkdir()
    made = Shell(folder, TMPDIR=str(tmp_path / "temporary"))
    yield made
    made.end()


BROKEN = """
import os, sys
if "packhorse_demo.worker_process" in sys.orig_argv:
    os.write(2, b"no coal\\n")
    os._exit(3)
"""


def worker_pids(shell: Shell) -> list[int]:
    """The worker processes of a demo, which are called with its folder."""
    listing = ["ps", "-ww", "-eo", "pid,stat,args"]  # -ww: whole, however narrow the terminal
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [line.split(None, 2) for line in listed if shell.environment["TMPDIR"] in line]
    return [int(pid) for pid, state, _ in mine if not state.startswith("Z")]


def left(shell: Shell) -> list[str]:
    """Files and processes of a demo that are still there."""
    folders = (Path(shell.environment["TMPDIR"]), shell.folder)
    files = [str(file) for folder in folders for file in folder.glob("*") if "output-" not in file.name]
    return [*files, *map(str, worker_pids(shell))]


async def run(shell: Shell, *arguments: str) -> Ended:
    """Run a demo to its end; it takes longer than other commands."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "demo",
        *arguments,
        cwd=shell.folder,
        env=shell.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def put(url: str, namespace: str, count: int) -> App:
    """An app with so many jobs in a store."""
    app = App(url, namespace=namespace)
    for _ in range(count):
        await app.queue("default").enqueue("something")
    return app


def whole(ended: Ended) -> None:
    """Every scene was played, and every check holds."""
    assert ended.code == 0, ended.out + ended.err
    summary = json.loads(ended.out)
    assert summary["passed"]
    assert [scene["name"] for scene in summary["scenes"]] == [scene.name for scene in scenes.found()]
    assert all(check["passed"] for scene in summary["scenes"] for check in scene["checks"])
    counts = summary["counts"]
    assert counts["done"] + counts["cancelled"] == counts["enqueued"]
    assert counts["retries"] >= 7
    assert counts["takeovers"] >= 1
    assert (counts["dead"], counts["replayed"], counts["cancelled"]) == (3, 3, 1)


async def test_every_scene_holds_in_a_file_of_its_own_that_goes_away(shell: Shell):
    ended = await run(shell, "--json")

    whole(ended)
    assert "What next:" in ended.err
    assert left(shell) == []


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in ("redis", "postgres")])
async def test_every_scene_holds_on_a_server_whose_other_jobs_stay(shell: Shell, kind: str, url: str):
    for namespace in (THEIRS, NAMESPACE):
        await wipe(kind, url, namespace)
    async with await put(url, THEIRS, 2) as theirs, await put(url, NAMESPACE, 3) as ours:
        refused = await run(shell, "--url", url)
        ended = await run(shell, "--json", "--yes", "--url", url)

        assert (refused.code, refused.out) == (2, "")
        assert f"3 jobs of an earlier demo, in the namespace {NAMESPACE}, will be removed. Use --yes" in refused.err
        whole(ended)
        assert (await count_jobs(theirs), await count_jobs(ours)) == (2, 0)
        assert left(shell) == []


async def test_on_a_terminal_it_goes_on_until_ctrl_c_and_then_sums_up(shell: Shell):
    demo = shell.terminal("demo")
    await demo.until("Ctrl-C stops it")
    await demo.until("20 orders wait in a paused queue")
    for words in ("queue", "waits", "claimed", "order-confirmation", "workers ["):
        await demo.until(words)

    demo.type(CTRL_C)

    assert await demo.ended() == 0
    summary = demo.text.rpartition("\x1b[?1049l")[2]
    assert all(words in summary for words in ("120 orders: all done, each once", "steady orders", "What next:"))
    assert "Traceback" not in demo.text
    assert left(shell) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopped_before_its_end_it_says_what_was_not_played(shell: Shell, number: signal.Signals):
    demo = shell.start("demo", "--once")
    await demo.until("retries:")

    demo.signal(number)

    assert await demo.ended() == 128 + number
    assert "FAILED not run: retries" in demo.text
    assert "Traceback" not in demo.text
    assert left(shell) == []


async def test_ctrl_c_again_ends_it_at_once(shell: Shell):
    demo = shell.terminal("demo", "--once")
    await demo.until("cancel: ")
    slow, quick = worker_pids(shell)
    os.kill(slow, signal.SIGSTOP)  # it does not stop when asked to

    demo.type(CTRL_C)
    async with asyncio.timeout(PATIENCE):
        while quick in worker_pids(shell):
            await asyncio.sleep(0.01)
    demo.type(CTRL_C)

    assert await demo.ended() == 128 + signal.SIGINT
    assert "What next:" not in demo.text
    assert "Traceback" not in demo.text
    async with asyncio.timeout(PATIENCE):
        while left(shell):  # a process that was killed may be seen a little longer than the one that killed it
            await asyncio.sleep(0.01)


async def test_beside_another_demo_it_is_not_played(shell: Shell):
    url = f"sqlite:///{shell.folder / 'shared.db'}"
    app = App(url)
    async with app:
        other = WorkerInfo(
            id=WORKER, name="worker", host="here", pid=1, slots=1, release="", queues=(), tasks=(), started=0
        )
        await (await app.store()).fleet.beat(other, HOUR)

        ended = await run(shell, "--url", url)

    assert (ended.code, ended.out) == (1, "")
    assert f"Another demo runs in the namespace {NAMESPACE} of this store: wait until it ends, or stop it." in ended.err


async def test_a_worker_that_does_not_start_is_reported_with_what_it_printed(shell: Shell, tmp_path: Path):
    shell.write("../broken/sitecustomize.py", BROKEN)
    before = shell.environment.get("PYTHONPATH", "")
    shell.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path / "broken"), before)))

    ended = await run(shell, "--once")

    assert (ended.code, ended.out) == (1, "")
    assert "A worker process of the demo did not start.\nno coal\n" in ended.err
    assert "Traceback" not in ended.err
    assert left(shell) == []


async def test_out_of_time_it_fails_and_shows_what_is_in_the_store(shell: Shell):
    ended = await run(shell, "--limit", "1.5")

    assert ended.code == 1
    assert "FAILED time: took more than 1.5 seconds" in ended.out
    assert "FAILED not run: " in ended.out
    assert "In the store:" in ended.out
    assert "Last output of the workers:" in ended.out
    assert left(shell) == []


async def test_a_file_that_holds_jobs_is_left_alone(shell: Shell):
    url = f"sqlite:///{shell.folder / 'mine.db'}"
    async with await put(url, "packhorse", 2) as app:
        ended = await run(shell, "--yes", "--url", url)

        assert ended.code == 2
        assert "holds 2 jobs; a file has no namespaces" in ended.err
        assert await count_jobs(app) == 2


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("sqlite:///:memory:", 2, "which cannot share a store in memory: give the path of a file"),
        ("redis://127.0.0.1:1/0", 4, "The store at redis://127.0.0.1:1/0 cannot be used"),
        ("ftp://127.0.0.1/", 2, "The scheme 'ftp' of the address is unknown"),
    ],
)
async def test_an_address_where_it_cannot_be_played_is_printed_in_a_sentence(
    shell: Shell, url: str, code: int, words: str
):
    ended = await run(shell, "--url", url)

    assert ended.code == code
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert left(shell) == []
