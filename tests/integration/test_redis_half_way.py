"""An error late in a script, as by a key that somebody gave another type: the call says so, and what is stored is sound."""

import pytest

from packhorse.errors import StoreError
from packhorse.model.job import State
from tests.conformance.invariants import check
from tests.factories import Done, drain, end, new, one, put_in, take
from tests.integration.keyspaces import KINDS, NONE, client_of, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

TAG = "{packhorse:packhorse}"
STREAM = f"{TAG}:stream:packhorse.jobs"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("options", [{}, {"lane": "a"}, {"delay": 1}], ids=["plain", "laned", "delayed"])
async def test_an_enqueue_that_failed_half_way_can_be_repeated(url, clock, options):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        await client.set(STREAM, "of another type")
        job = new(**options)
        with pytest.raises(StoreError, match="after a part of the call"):
            await put_in(store, job)
        await client.delete(STREAM)

        await put_in(store, job)
        clock.turn(10)
        await store.maintain()

        assert await drain(store) == [job.id]
        await check(store)


async def test_a_settlement_that_failed_half_way_can_be_repeated(url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        [job] = await put_in(store, new())
        [lease] = await take(store)
        await client.delete(STREAM)
        await client.set(STREAM, "of another type")
        with pytest.raises(StoreError, match="after a part of the call"):
            await end(store, lease, Done(b"1"))
        await client.delete(STREAM)

        await end(store, lease, Done(b"1"))

        found = await one(store, job)
        assert (found.state, found.result) == (State.DONE, b"1")
        await check(store)
