"""How a worker divides itself between queues."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from packhorse.model.event import LIFECYCLE, Change, unpack
from packhorse.stores.contract import Store
from packhorse.telemetry.emit import Telemetry
from tests.engine.factories import EventName, EventRecorder, Tasks, jobs, worker
from tests.factories import put_in

WEIGHTS = {"critical": 6, "default": 3, "low": 1}
PICKS = 1000


async def stocked(store: Store, **counts: int) -> dict[bytes, str]:
    """So many jobs in each queue; answers the queue of each."""
    queues: dict[bytes, str] = {}
    for queue, count in counts.items():
        for first in range(0, count, 500):
            made = await put_in(store, *jobs(min(500, count - first), queue=queue))
            queues |= dict.fromkeys(made, queue)
    return queues


def tasks() -> Tasks:
    made = Tasks()

    @made.task()
    async def work(number: int) -> None:
        pass

    return made


async def claims(store: Store) -> AsyncIterator[list[bytes]]:
    """What was leased, call by call."""
    offset = 0
    while events := await store.streams.read(LIFECYCLE, after=offset, limit=500):
        offset = events[-1].offset
        for event in events:
            yield [job for change, job in unpack(event.data) if change is Change.CLAIMED]


async def picked(
    store: Store,
    telemetry: Telemetry,
    recorder: EventRecorder,
    queues: dict[bytes, str],
    *,
    picks: int = PICKS,
    workers: int = 1,
    weights: dict[str, int] = WEIGHTS,
    **options: object,
) -> Counter[str]:
    """From which queues about the first so many jobs came, by whole calls."""
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(worker(store, tasks(), telemetry, queues=weights, **options))
        await recorder.until(EventName.STARTED, picks)
    total: Counter[str] = Counter()
    async for claimed in claims(store):
        total.update(queues[job] for job in claimed)
        if total.total() >= picks:
            break
    return total


def by_weight(picks: Counter[str], **parts: float) -> bool:
    """Whether each queue had its part, within five per cent of all picks."""
    total = picks.total()
    return all(picks[queue] == pytest.approx(part * total, abs=total / 20) for queue, part in parts.items())


@pytest.mark.parametrize("concurrency", [1, 3, 10, 100])
async def test_weights_hold_over_a_thousand_picks(memory, telemetry, recorder, concurrency):
    queues = await stocked(memory, critical=800, default=500, low=300)

    picks = await picked(memory, telemetry, recorder, queues, concurrency=concurrency)

    assert by_weight(picks, critical=0.6, default=0.3, low=0.1)


async def test_weights_hold_over_a_thousand_picks_on_every_store(live, telemetry, recorder):
    queues = await stocked(live, critical=800, default=500, low=300)

    picks = await picked(live, telemetry, recorder, queues)

    assert by_weight(picks, critical=0.6, default=0.3, low=0.1)


async def test_weights_hold_for_several_workers_together(live, telemetry, recorder):
    queues = await stocked(live, critical=800, default=500, low=300)

    picks = await picked(live, telemetry, recorder, queues, workers=2)

    assert by_weight(picks, critical=0.6, default=0.3, low=0.1)


@pytest.mark.parametrize("concurrency", [1, 10])
async def test_the_part_of_an_empty_queue_is_used_by_the_others(memory, telemetry, recorder, concurrency):
    queues = await stocked(memory, default=1000, low=500)

    picks = await picked(memory, telemetry, recorder, queues, concurrency=concurrency)

    assert by_weight(picks, default=0.75, low=0.25)


async def test_a_queue_of_the_least_weight_does_not_starve(memory, telemetry, recorder):
    queues = await stocked(memory, default=1000, low=5)

    picks = await picked(memory, telemetry, recorder, queues, picks=800, weights={"default": 99, "low": 1})

    assert picks["low"] >= 4


async def test_one_queue_may_use_the_whole_worker(memory, telemetry, recorder):
    queues = await stocked(memory, low=200)

    assert await picked(memory, telemetry, recorder, queues, picks=200) == {"low": 200}
