"""How the Redis store meets servers that refuse, stumble or go away, and callers that do."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from packhorse.errors import OutcomeUnknown, StoreClosed, StoreFull, StoreUnavailable
from packhorse.model.job import State
from packhorse.model.lease import Lease
from packhorse.model.outcome import Done
from packhorse.stores.contract import Topic
from packhorse.stores.redis.store import RedisStore
from packhorse.testing.clock import TurnedClock
from tests import servers
from tests.conftest import address, wipe
from tests.integration.keyspaces import KINDS, NONE, client_of, opened
from tests.making import MINUTE, OTHER, WORKER, end, new, one, put_in, state, take

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Deaf:
    """A server that shakes hands and then answers each request with the next of some words, or hangs up."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.heard = list(answers), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while line := await reader.readline():
                words = [await self.word(reader) for _ in range(int(line[1:]))]
                if words[0] in (b"CLIENT", b"SELECT"):
                    writer.write(b"+OK\r\n")
                    continue
                self.heard += 1
                if not self.answers:
                    break
                writer.write(self.answers.pop(0) + b"\r\n")
        writer.close()

    async def word(self, reader: asyncio.StreamReader) -> bytes:
        size = int((await reader.readline())[1:])
        return (await reader.readexactly(size + 2))[:-2]

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncIterator[RedisStore]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        store = RedisStore(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", clock=TurnedClock())
        store._keyspace.connections.open()
        yield store
        await store.close()
        server.close()


SCRIPTED = b"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -"


@pytest.mark.parametrize(
    ("answers", "error", "words"),
    [
        ([], OutcomeUnknown, "same ids"),
        ([b"-OOM command not allowed"], StoreFull, "maxmemory"),
        ([SCRIPTED + b"OOM command not allowed when used memory"], StoreFull, "maxmemory"),
        ([b"-READONLY You can't write against a read only replica."], StoreUnavailable, "replica"),
        ([b"-MISCONF Redis is configured to save RDB snapshots"], StoreUnavailable, "disk"),
        ([b"-NOREPLICAS Not enough good replicas to write."], StoreUnavailable, "replicas"),
        ([b"-NOAUTH Authentication required."], StoreUnavailable, "password"),
        ([b"-ERR something else"], StoreUnavailable, "something else"),
        ([b"-NOSCRIPT No matching script.", b"-ERR no"], StoreUnavailable, "no"),
    ],
)
async def test_what_the_server_answers_becomes_an_error_of_ours(answers, error, words):
    async with Deaf(*answers).store() as store:
        with pytest.raises(error, match=words):
            await store.jobs.enqueue([new()])


@pytest.mark.parametrize("word", [b"LOADING", b"BUSY", b"MASTERDOWN", b"TRYAGAIN", b"CLUSTERDOWN"])
async def test_a_server_that_is_busy_for_a_while_is_asked_again(word):
    server = Deaf(b"-" + word + b" wait a little", b"-" + word + b" wait a little", b"*0")
    async with server.store() as store:
        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]

    assert server.heard == 3


async def test_a_read_that_got_no_answer_may_be_repeated(kind):
    async with Deaf().store() as store:
        with pytest.raises(StoreUnavailable):
            await store.jobs.count()


async def test_a_server_that_is_not_there_is_unavailable():
    store = RedisStore(f"redis://127.0.0.1:{servers.free_port()}/0")
    with pytest.raises(StoreUnavailable, match="address"):
        await store.open()
    with pytest.raises(StoreClosed):
        await store.jobs.count()


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


@pytest.mark.parametrize(
    ("url", "made", "options"),
    [
        (
            "redis://ox:hay@farm:1/2",
            Connection,
            {"host": "farm", "port": 1, "db": 2, "username": "ox", "password": "hay"},
        ),
        ("valkey://farm", Connection, {"host": "farm"}),
        ("rediss://farm:1", SSLConnection, {"host": "farm", "port": 1}),
        ("valkeys://farm:1/3", SSLConnection, {"host": "farm", "port": 1, "db": 3}),
        ("unix:///run/farm.sock?db=4", UnixDomainSocketConnection, {"path": "/run/farm.sock", "db": 4}),
    ],
)
def test_an_address_says_how_to_connect(url, made, options):
    connections = RedisStore(url)._keyspace.connections

    assert connections._make is made
    assert options.items() <= connections._options.items()


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
                while not (lines := [ln for ln in await client.client_list() if ln["cmd"] in ("blpop", "subscribe")]):
                    await asyncio.sleep(0)
            for line in lines:
                await client.client_kill_filter(_id=line["id"])
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
                store._keyspace.connections._check()
            except StoreClosed:
                os._exit(7)
            finally:
                os._exit(1)

    assert asyncio.run(parent()) == 7
