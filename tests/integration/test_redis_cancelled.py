"""Calls that were given up: what they still do, they do before whatever is called next."""

import asyncio

import pytest

from tests.factories import new, new_id
from tests.integration.keyspaces import KINDS, NONE, client_of, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_call_given_up_that_met_a_server_without_its_script_is_not_made_after_the_next_call(url):
    async with opened(url) as store, client_of(url) as client:
        await client.script_flush()
        await store.jobs.drop([new_id()])  # the server has this script again, and not the one for enqueue
        job = new()
        given_up = asyncio.create_task(store.jobs.enqueue([job]))
        while not store._keyspace.connections._calls:
            await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up

        dropped = await store.jobs.drop([job.id])

        await store.jobs.count()
        assert await store.jobs.get([job.id]) == [None], f"it was made after it was dropped ({dropped})"


async def test_calls_go_on_after_many_were_given_up(url):
    async with opened(url) as store:
        for _ in range(50):
            calls = [asyncio.create_task(store.jobs.enqueue([new()])) for _ in range(5)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
        [receipt] = await store.jobs.enqueue([new()])

        assert receipt.created
