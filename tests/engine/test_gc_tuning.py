"""A process that is a worker looks for garbage seldom, and leaves what was chosen as it is."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from tests.engine.factories import EventName, Tasks, worker


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("chosen", "meanwhile"), [(700, 10_000), (50_000, 50_000), (0, 0)])
async def test_a_worker_that_is_run_looks_for_garbage_seldom(memory, telemetry, recorder, chosen, meanwhile):
    gc.set_threshold(chosen, 11, 12)
    working = worker(memory, Tasks(), telemetry)
    running = asyncio.create_task(working.run())
    await recorder.until(EventName.WORKER_STARTED)
    await working.idle()

    seen = gc.get_threshold()
    working.stop()
    await running

    assert seen == (meanwhile, 11, 12)
    assert gc.get_threshold() == (chosen, 11, 12)


async def test_two_workers_that_end_in_the_order_they_began_leave_the_threshold_as_it_was(memory, telemetry, recorder):
    gc.set_threshold(700, 11, 12)
    first, second = worker(memory, Tasks(), telemetry), worker(memory, Tasks(), telemetry)
    runs = [asyncio.create_task(each.run()) for each in (first, second)]
    await recorder.until(EventName.WORKER_STARTED, 2)
    first.stop()
    await runs[0]
    during = gc.get_threshold()
    second.stop()
    await runs[1]

    assert during == (10_000, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


async def test_a_worker_beside_other_code_leaves_that_to_it(memory):
    before = gc.get_threshold()

    async with worker(memory, Tasks()):
        assert gc.get_threshold() == before
