"""Entries that are no longer good in the lines of the Redis store, and exchanges of full size."""

import pytest

from packhorse.model.effect import Enqueue
from packhorse.model.job import State
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.outcome import Done
from packhorse.model.page import Filter
from tests.factories import ask, end, new, new_id, put_in, take
from tests.integration.keyspaces import KINDS, NONE, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_stale_entry_is_passed_over_and_the_fresh_one_keeps_its_turn(kind, url, clock):
    async with opened(url, clock=clock) as store:
        first, second, third = await put_in(store, new(), new(), new())
        for _ in range(3):
            await store.jobs.cancel([first])
            await store.jobs.replay([first])
        found = await store.jobs.find(Filter(state=State.READY))
        assert [job.id for job in found.items] == [second, third, first]

        assert [lease.id for lease in await take(store, 10)] == [second, third, first]
        assert await take(store) == []


async def test_a_dropped_id_may_come_back_in_another_line(kind, url, clock):
    async with opened(url, clock=clock) as store:
        name, other = new_id(), new_id()
        await put_in(store, new(id=name, priority=5), new(id=other, priority=7))
        for priority in (9, 5, 9, 5):
            await store.jobs.drop([name])
            await put_in(store, new(id=name, priority=priority))
        await store.jobs.drop([name])
        await put_in(store, new(id=name, priority=9))

        assert [job.id for job in (await store.jobs.find(Filter())).items] == [other, name]
        assert [lease.id for lease in await take(store, 10)] == [other, name]
        assert await store.jobs.count() == {"default": {State.READY: 0, State.RUNNING: 2}}


async def test_stale_entries_in_great_number_do_not_hide_work(kind, url, clock):
    async with opened(url, clock=clock) as store:
        for _ in range(13):
            ids = await put_in(store, *(new() for _ in range(500)))
            await store.jobs.cancel(ids)
        [job] = await put_in(store, new())

        answer = await store.jobs.exchange((), ask(10))
        assert (answer.leases, answer.more) == ((), True)
        answer = await store.jobs.exchange((), ask(10))
        assert ([lease.id for lease in answer.leases], answer.more) == ([job], False)


async def test_a_cancelled_job_behind_a_lane_is_passed_over(kind, url, clock):
    async with opened(url, clock=clock) as store:
        first, second, third, fourth = await put_in(store, *(new(lane="a") for _ in range(4)))
        await store.jobs.cancel([third, second])
        await store.jobs.replay([second])
        [lease] = await take(store)
        assert lease.id == first
        for expected in (fourth, second):
            await end(store, lease, Done())
            [lease] = await take(store)
            assert lease.id == expected
        await end(store, lease, Done())
        assert [lease.lane for lease in await take(store)] == []


async def test_an_exchange_may_carry_as_much_as_the_caps_allow(kind, url, clock):
    async with opened(url, clock=clock) as store:
        await put_in(store, *(new() for _ in range(500)))
        leases = await take(store, 500)
        effects = [Enqueue(new(lane=f"k{n % 7}")) for n in range(2000)]
        answer = await store.jobs.exchange(
            [Settlement(lease, Done(), tuple(effects[4 * n : 4 * n + 4])) for n, lease in enumerate(leases)], ask(500)
        )

        assert set(answer.verdicts) == {Verdict.WRITTEN}
        assert (await store.jobs.count())["default"][State.WAITING] == 1993
