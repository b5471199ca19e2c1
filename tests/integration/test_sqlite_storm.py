"""Several processes that commit and checkpoint on one file at once, by two names of it: nothing is lost, it stays whole."""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from packhorse.model.job import State
from packhorse.stores import open_store
from tests.conformance.invariants import check, plain
from tests.factories import found
from tests.integration.torn import LONG

PROCESSES, SECONDS = (4, 600) if LONG else (3, 5)


async def test_processes_that_commit_and_checkpoint_at_once_lose_nothing(tmp_path: Path):
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    link.symlink_to(path)
    store = open_store(f"sqlite:///{path}")
    await store.migrate()
    await store.close()
    outputs = [
        tmp_path / f"{number}.json" for number in range(PROCESSES)
    ]  # files: a pipe that nobody reads is soon full
    fleet = []
    for number, words in enumerate(outputs):
        address = str(link if number % 2 else path)
        with words.open("w") as out:
            command = [sys.executable, "-m", "tests.integration.sqlite_storm", address, str(SECONDS)]
            fleet.append(subprocess.Popen(command, stdout=out))
    looks, longest = [], 0
    try:
        while any(one.poll() is None for one in fleet):
            looks.append(whole(path))
            longest = max(longest, length(Path(f"{path}-wal")))
            time.sleep(0.2)
    finally:
        for one in fleet:
            one.kill()
            one.wait()
    assert [one.returncode for one in fleet] == [0] * PROCESSES

    results = [json.loads(words.read_text()) for words in outputs]
    stored = [job for each in results for job in each["stored"]]
    settled = [job for each in results for job in each["settled"]]
    assert len(set(settled)) == len(settled), "a job was settled twice"
    assert {*looks, whole(path)} == {"ok"}
    assert longest < 8 << 20, f"{longest:,}"
    assert not Path(f"{link}.lock").exists()
    await store.open()
    try:
        await check(store)
        assert plain(await store.jobs.count())["default", State.DONE] == len(settled)
        assert {job.id.hex() for job in await found(store, limit=1000)} == set(stored)
    finally:
        await store.close()


def whole(path: Path) -> str:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return "; ".join(str(row[0]) for row in connection.execute("PRAGMA integrity_check"))


def length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
