"""SIGKILL of processes in the middle of everything: nothing acknowledged is lost, nothing is settled twice."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from packhorse.model.effect import Publish
from packhorse.model.event import Event
from packhorse.model.job import State, StoredJob
from packhorse.model.lease import Settlement
from packhorse.model.outcome import Done
from packhorse.model.page import Filter
from packhorse.stores import open_store
from packhorse.stores.contract import Store
from tests.conformance.invariants import check
from tests.conftest import kinds, namespace
from tests.crash.loop import NEVER_POISON, SETTLED
from tests.factories import ask
from tests.integration.torn import LONG

KILLS = int(os.environ.get("PACKHORSE_KILLS", "5000" if LONG else "60"))


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind in ("sqlite", "redis", "postgres")])
async def test_kills_lose_nothing_and_settle_nothing_twice(kind: str, url: str, tmp_path: Path):
    seed = int(os.environ.get("PACKHORSE_SEED", random.randrange(1 << 30)))
    again = f"reproduce: PACKHORSE_SEED={seed} pytest tests/crash/test_kills.py -k {kind}"
    store = open_store(url, namespace=namespace(kind))
    await store.migrate()

    command = [
        sys.executable,
        "-m",
        "tests.crash.loop",
        url,
        namespace(kind),
        str(tmp_path / "ledger"),
        str(KILLS),
        str(seed),
    ]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, timeout=60 + KILLS)
    assert ran.returncode == 0, f"{ran.stderr.decode()}\n{again}"

    await store.open()
    try:
        await heal(store)
        lines = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
        enqueued = {job for letter, job in lines if letter == "E"}
        settled = Counter(job for letter, job in lines if letter == "S")
        jobs = {job.id.hex(): job for job in await everything(store)}
        effects = Counter(await published(store))

        assert len(enqueued) > KILLS
        assert enqueued <= set(jobs), f"{len(enqueued - set(jobs))} acknowledged jobs are lost; {again}"
        assert {job.state for job in jobs.values()} == {State.DONE}, again
        assert set(settled) <= set(jobs), again
        assert max(settled.values()) == 1, f"a job was settled twice; {again}"
        assert effects == Counter(list(jobs)), f"an effect is missing or doubled; {again}"
        await check(store)
    finally:
        await store.close()


async def heal(store: Store) -> None:
    """Take back what the dead held and finish all jobs."""
    settlements: list[Settlement] = []
    while True:
        await store.jobs.reap(500, max_lost=NEVER_POISON)
        answer = await store.jobs.exchange(settlements, ask(200))
        settlements = [
            Settlement(lease, Done(), (Publish(SETTLED, lease.id.hex().encode()),)) for lease in answer.leases
        ]
        if settlements:
            continue
        counts = (await store.jobs.count()).get("default", {})
        if all(not number or state.ended for state, number in counts.items()):
            return
        await asyncio.sleep(0.05)  # real leases run out in real time


async def everything(store: Store) -> list[StoredJob]:
    """All jobs there are."""
    jobs: list[StoredJob] = []
    cursor = None
    while True:
        page = await store.jobs.find(Filter(), limit=1000, cursor=cursor)
        jobs += page.items
        cursor = page.cursor
        if cursor is None:
            return jobs


async def published(store: Store) -> list[str]:
    """Which jobs left their effect, once per effect."""
    events: list[Event] = []
    while page := await store.streams.read(SETTLED, after=events[-1].offset if events else 0, limit=1000):
        events += page
    return [event.data.decode() for event in events]
