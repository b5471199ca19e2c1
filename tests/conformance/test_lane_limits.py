"""Jobs of one lane that say different limits: each is let in by its own, as they come."""

import pytest

from packhorse.model.job import State
from tests.factories import Done, end, laned, put_in, run, states, take

READY, WAITING, RUNNING, DONE = State.READY, State.WAITING, State.RUNNING, State.DONE


@pytest.mark.parametrize("together", [True, False], ids=["one call", "calls one by one"])
async def test_each_job_that_asks_a_lane_is_let_in_by_its_own_limit(store, together):
    jobs = [laned(lane_limit=limit) for limit in (2, 1, 3)]
    if together:
        await put_in(store, *jobs)
    else:
        for job in jobs:
            await put_in(store, job)
    ids = [job.id for job in jobs]

    assert await states(store, *ids) == [READY, WAITING, WAITING]  # the second does not fit, and is not overtaken
    await run(store, Done())
    assert await states(store, *ids) == [DONE, READY, WAITING]
    await run(store, Done())
    assert await states(store, *ids) == [DONE, DONE, READY]


@pytest.mark.parametrize("together", [True, False], ids=["one call", "calls one by one"])
async def test_a_slot_that_is_freed_goes_to_the_next_in_line_whatever_its_limit(store, together):
    jobs = [laned(lane_limit=limit) for limit in (3, 3, 1, 3)]
    if together:
        await put_in(store, *jobs)
    else:
        for job in jobs:
            await put_in(store, job)
    first, second = await take(store)
    ids = [job.id for job in jobs]
    assert await states(store, *ids) == [RUNNING, RUNNING, WAITING, WAITING]

    await end(store, first, Done())

    assert await states(store, *ids) == [DONE, RUNNING, READY, WAITING]
    await end(store, second, Done())
    assert await states(store, *ids) == [DONE, DONE, READY, READY]
