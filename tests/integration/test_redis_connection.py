"""How the Redis store meets servers that refuse, stumble or go away, and callers that do."""

import asyncio
import contextlib
import os

import pytest

from packhorse.errors import StoreClosed
from packhorse.model.effect import Publish
from packhorse.model.job import State
from packhorse.model.lease import Lease
from packhorse.model.outcome import Done
from packhorse.stores.contract import Topic
from tests.conftest import address, wipe
from tests.factories import MINUTE, OTHER, WORKER, end, new, one, put_in, state, take
from tests.integration.keyspaces import KINDS, NONE, client_of, opened, waiting

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_cancelled_callers_leave_no_answer_behind(kind, url, clock):
    async with opened(url, clock=clock) as store:
        jobs = await put_in(store, *(new(payload=b"%d" % n) for n in range(100)))
        for round_ in range(5):
            calls = [asyncio.create_task(one(store, job)) for job in jobs]
            for _ in range(round_):
                await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [answer.payload for answer in answers[1::2]] == [b"%d" % n for n in range(1, 100, 2)]

        made = asyncio.create_task(store.jobs.enqueue([late := new()]))
        await asyncio.sleep(0)
        made.cancel()
        assert await asyncio.gather(made, return_exceptions=True)
        await store.close()
        async with opened(url, clock=clock) as again:
            assert await state(again, late.id) is State.READY


async def test_two_workers_share_a_queue_without_meeting(kind, url, clock):
    async with opened(url, clock=clock) as one_store, opened(url, clock=clock) as other:
        await put_in(one_store, *(new() for _ in range(100)))
        taken: list[list[Lease]] = await asyncio.gather(
            *(
                take(store, 10, worker=worker)
                for store, worker in ((one_store, WORKER), (other, OTHER))
                for _ in range(5)
            )
        )

        assert len({lease.id for leases in taken for lease in leases}) == 100


@pytest.mark.parametrize("topic", Topic)
async def test_a_listener_whose_line_broke_listens_again(kind, url, clock, topic):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        await put_in(store, new())
        [lease] = await take(store)
        assert await take(store) == []
        rung = asyncio.Event()

        async def listen() -> None:
            async for _ in store.wakes(topic):
                rung.set()

        listener = asyncio.create_task(listen())
        for _ in range(3):
            await store.jobs.watch([lease.id], MINUTE)
            async with asyncio.timeout(20):
                while not (lines := await waiting(client, "blpop", "subscribe")):
                    await asyncio.sleep(0)
            for line in lines:
                await client.client_kill_filter(_id=line)
            rung.clear()
            await (put_in(store, new()) if topic is Topic.WORK else end(store, lease, Done()))
            await asyncio.wait_for(rung.wait(), 10)
            for taken in await take(store):
                lease = taken
            if topic is Topic.ENDS:
                await put_in(store, new())
                [lease] = await take(store)
        listener.cancel()
        await asyncio.wait([listener])


async def test_a_closed_store_lets_its_listeners_go(kind, url, clock):
    async with opened(url, clock=clock) as store:
        listeners = [asyncio.create_task(anext(store.wakes(topic), None)) for topic in (*Topic, *Topic)]
        for _ in range(20):
            await asyncio.sleep(0)
        await store.close()

        await asyncio.wait_for(asyncio.wait(listeners), 10)


def test_a_forked_child_may_not_use_the_store(kind, tmp_path):
    async def parent() -> int:
        url = address(kind, tmp_path)
        await wipe(kind, url, "packhorse")
        async with opened(url) as store:
            child = os.fork()
            if child:
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            try:
                store._keyspace.connections._refuse_if_closed()
            except StoreClosed:
                os._exit(7)
            finally:
                os._exit(1)

    assert asyncio.run(parent()) == 7


async def test_all_readers_of_streams_share_one_connection_that_is_made_anew_when_it_breaks(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client, contextlib.AsyncExitStack() as stack:
        assert await waiting(client, "xread") == []
        readers = [
            await stack.enter_async_context(contextlib.aclosing(store.streams.wakes(f"s{number}")))
            for number in range(20)
        ]
        await asyncio.gather(*map(anext, readers))
        hints = [asyncio.ensure_future(anext(reader)) for reader in readers]
        for round_ in range(2):
            async with asyncio.timeout(20):
                while not (lines := await waiting(client, "xread")):
                    await asyncio.sleep(0)
            assert len(lines) == 1
            if round_ == 0:
                await client.client_kill_filter(_id=lines[0])

        await store.streams.publish([Publish(f"s{number}", b"1") for number in range(20)])

        await asyncio.wait_for(asyncio.gather(*hints), 10)
