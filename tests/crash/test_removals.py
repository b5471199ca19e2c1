"""SIGKILL of processes that remove and replay jobs: the totals of queues stay exact."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from packhorse.model.job import NewJob
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.conformance.invariants import check
from tests.conftest import kinds, namespace
from tests.crash.removals import ENDED, ENQUEUED, OUTCOMES, QUEUES, enqueue
from tests.integration.torn import LONG

KILLS = 1000 if LONG else 30


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
async def test_totals_are_exact_after_kills_of_processes_that_remove_and_replay(kind: str, url: str, tmp_path: Path):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    again = f"reproduce: PACKHORSE_SEED={seed} pytest tests/crash/test_removals.py -k {kind}"
    store = open_store(url, namespace=namespace(kind))
    await store.migrate()
    command = [sys.executable, "-m", "tests.crash.removals", url, namespace(kind), str(tmp_path / "ledger"), str(KILLS)]
    ran = await asyncio.to_thread(
        subprocess.run, [*command, str(seed)], capture_output=True, check=False, timeout=60 + KILLS
    )
    assert ran.returncode == 0, f"{ran.stderr.decode()}\n{again}"

    await store.open()
    try:
        await enqueue(store, [NewJob(task="work", queue=queue) for queue in QUEUES])  # no queue is forgotten now
        stats = {queue.name: queue for queue in await store.queues.stats()}
        for queue in QUEUES:
            assert stats[queue].total_enqueued == await written(store, ENQUEUED, f"{queue}/"), again
            for state in OUTCOMES:
                ended = await written(store, ENDED, f"{queue}/{state}/")
                assert ended > 0
                assert stats[queue].total_ended[state] == ended, f"{queue} {state}; {again}"
            assert stats[queue].total_enqueued > sum(stats[queue].counts.values())
        await check(store)
    finally:
        await store.close()


async def written(store: Store, kind: str, prefix: str) -> int:
    """How many records of a kind begin with a prefix."""
    page = await store.records.find(kind, prefix=prefix, limit=1000)
    number = len(page.items)
    while page.cursor:
        page = await store.records.find(kind, prefix=prefix, limit=1000, cursor=page.cursor)
        number += len(page.items)
    return number
