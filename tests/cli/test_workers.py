"""packhorse workers: those that live."""

import os

from tests.cli.scene import Scene
from tests.cli.shell import Shell

KEYS = {"id", "name", "host", "pid", "release", "queues", "tasks", "slots", "started", "seen"}


async def test_the_workers_that_live_are_listed(scenes: Scene):
    listed, table = await scenes.each("workers --json", "workers")

    [worker] = listed.json
    assert set(worker) == KEYS
    assert (worker["name"], worker["host"], worker["pid"], worker["slots"]) == ("ox", "stable", os.getpid(), 10)
    assert (worker["queues"], worker["release"]) == (["default", "email"], "7")
    assert table.out.splitlines()[0].split() == [
        "name", "host", "pid", "release", "queues", "slots", "tasks", "since", "last", "beat",
    ]  # fmt: skip


async def test_a_worker_says_where_it_runs_and_leaves_when_it_ends(folder: Shell):
    nobody = await folder.run("workers", "-A", "shop")
    worker = folder.start("worker", "shop", "-c", "3")
    while not (found := (await folder.run("workers", "--json")).json):
        assert worker.process.poll() is None, worker.text

    assert nobody.out == "No worker is alive: `packhorse worker` starts one.\n"
    assert [(one["pid"], one["slots"]) for one in found] == [(worker.process.pid, 3)]
