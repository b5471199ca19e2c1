"""The store's clock is set back, as by NTP, an operator or a failover to another host."""

import pytest

from packhorse.model.job import State
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    Again,
    Cancelled,
    ask,
    drain,
    end,
    laned,
    new,
    one,
    put_in,
    state,
    take,
)

BACK = 5 * SECOND


@pytest.mark.parametrize("lane", [None, "a"])
async def test_a_job_that_has_ended_is_not_leased_again_even_after_the_clock_was_set_back(store, clock, lane):
    [job] = await put_in(store, new(delay=10 * SECOND, lane=lane))
    clock.turn(11 * SECOND)
    await put_in(store, new("other"))  # any call of the queue makes ready what is due
    clock.set_back(BACK)
    assert await store.maintain() == []

    ran = await drain(store)
    clock.turn(HOUR)
    ran += await drain(store)

    assert ran.count(job) == 1
    assert await state(store, job) is State.DONE


async def test_every_lease_of_a_job_has_a_higher_fence_than_the_one_before_even_after_the_clock_was_set_back(
    store, clock
):
    [job] = await put_in(store, new())
    fences = []
    for outcome in (Again(), Again(charged=False), Cancelled(), Again(MINUTE), Again()):
        [lease] = await take(store)
        fences.append(lease.fence)
        await end(store, lease, outcome)
        clock.set_back(MINUTE)
        await store.jobs.replay([job])
        await store.jobs.promote([job])

    assert fences == sorted(set(fences))


async def test_a_lease_given_again_keeps_its_fence_when_the_clock_is_set_back(store, clock):
    await put_in(store, new())
    wanted = ask()
    [lease] = (await store.jobs.exchange((), wanted)).leases
    clock.set_back(MINUTE)

    [same] = (await store.jobs.exchange((), wanted)).leases

    assert (same.fence, same.token) == (lease.fence, lease.token)


async def test_a_lease_taken_back_has_a_lower_fence_than_the_next(store, clock):
    [job] = await put_in(store, new())
    [lost] = await take(store)
    clock.turn(HOUR)
    await store.jobs.reap(10)
    clock.set_back(2 * HOUR)

    [lease] = await take(store)

    assert lease.fence > lost.fence
    assert (await one(store, job)).attempt == 2


async def test_a_job_of_a_lane_is_not_overtaken_after_the_clock_was_set_back(store, clock):
    [first] = await put_in(store, laned(delay=MINUTE))
    clock.turn(2 * MINUTE)
    [second] = await put_in(store, laned())
    clock.set_back(10 * MINUTE)
    [later] = await put_in(store, laned(delay=MINUTE))
    [third] = await put_in(store, laned())

    ran = await drain(store)
    clock.turn(HOUR)
    ran += await drain(store)

    assert [job for job in ran if job != later] == [first, second, third]
    assert later in ran
