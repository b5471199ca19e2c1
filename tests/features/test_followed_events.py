"""A process follows all events while others enqueue and work: each event once, in order, whatever happens to the reader.

``PACKHORSE_TEST_LONG=1`` is the full size.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from packhorse import App, Keep, correlated
from packhorse.model.event import LIFECYCLE
from tests.features.factories import PATIENCE, Place, Workers, so_far, some, until

LONG = bool(os.environ.get("PACKHORSE_TEST_LONG"))
JOBS = 10_000 if LONG else 1_000
RECONNECTS = 20
LIFE = ["enqueued", "claimed", "done"]


@asynccontextmanager
async def reader(place: Place, position: str, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that follows from a position on, until it is killed with SIGKILL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.features.following", position, str(count), env=place.environment
    )
    try:
        yield process
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def seen(place: Place, count: int) -> None:
    """Wait until the reader has seen so many events."""

    async def there() -> bool:
        await asyncio.sleep(0.05)
        return len(place.lines("event")) >= count

    await until(there, PATIENCE + JOBS / 100)


async def enqueue(app: App) -> dict[str, str]:
    """Enqueue all jobs, up to fifty at a time, and answer the correlation id of each."""
    chance, chains = random.Random(7), dict[str, str]()

    @app.task(name="quick")
    async def quick(number: int) -> int:
        return number

    kept = quick.using(keep_done=Keep(count=10_000_000))  # stored with the job: the workers have another task
    while len(chains) < JOBS:
        chain = f"chain-{len(chains)}"
        with correlated(chain):
            calls = [kept.call(number) for number in range(min(chance.randint(1, 50), JOBS - len(chains)))]
            chains |= {job.id: chain for job in await app.enqueue(*calls)}
    return chains


async def test_s36_each_event_comes_once_and_in_order_through_reconnects_and_a_kill_of_the_reader(
    live: App, place: Place, workers: Workers
):
    every = 3 * JOBS // RECONNECTS
    await live.open()
    async with reader(place, "earliest", every):
        await place.until("connects")
        await workers.start(queues="default")
        enqueueing = asyncio.create_task(enqueue(live))
        await seen(place, JOBS)
    async with reader(place, place.lines("event")[-1][1], every):
        chains = await enqueueing
        await seen(place, 3 * JOBS)

    events = [line[1:] for line in place.lines("event")]
    there = await so_far(live)
    assert events == [[e.position, e.name.value, e.job_id, e.correlation_id] for e in there]
    lives: dict[str, list[str]] = {}
    for _, name, job, chain in events:
        lives.setdefault(job, []).append(name)
        assert chain == chains[job]
    assert lives == dict.fromkeys(chains, LIFE)
    assert len(place.lines("connects")) >= RECONNECTS
    assert place.lines("gap") == []

    store, middle = await live.store(), len(there) // 2
    kept = int(str(there[middle].position).partition(".")[0]) + 1
    while await store.streams.trim(LIFECYCLE, kept, 1000):
        pass
    place.ledger.write_text("")
    rest = await so_far(live)
    async with reader(place, "1.0", every):
        await seen(place, len(rest))
    assert place.lines("gap") == [["gap", f"{kept}.0", str(kept - 1)]]
    assert [line[1] for line in place.lines("event")] == [event.position for event in rest]


async def test_s18_the_loss_of_a_killed_worker_is_an_event_with_job_and_worker(
    live: App, place: Place, workers: Workers
):
    await live.open()
    job = await live.queue("sits").enqueue("sits")
    ox = await workers.start(queues="sits", lease=1, name="ox")
    await place.until("begin")
    await workers.start(queues="sits", lease=1, name="yak")

    async with live.events("lost", "done") as events:
        ox.send_signal(signal.SIGKILL)
        killed = await (await live.store()).ping()
        lost, done = await some(events, 2)

    assert (lost.name, lost.job_id, lost.worker, lost.attempt) == ("lost", job.id, "ox", 1)
    assert (done.name, done.job_id, done.attempt) == ("done", job.id, 2)
    assert lost.at.timestamp() - killed / 1_000_000 < timedelta(seconds=2).total_seconds()
