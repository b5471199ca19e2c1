"""Every reply of the error table, and what a caller gets for it; servers say it themselves where they can be made to."""

import asyncio
import contextlib

import pytest
import redis.exceptions

from packhorse.errors import (
    ConfigError,
    DurabilityNotMet,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from packhorse.model.job import State
from packhorse.stores.redis.store import RedisStore
from tests import servers
from tests.factories import new, put_in, state
from tests.integration.keyspaces import KINDS, NONE, SERVERS, client_of, opened
from tests.integration.refusing import Refusing

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

SCRIPTED = b"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -"  # as Redis 6.2 has it
DENIED = b"-ERR ACL failure in script: User ox has no permissions to run the 'xadd' command"

# What it says, what the caller gets, and what the words advise.
ONCE = [
    (b"-READONLY You can't write against a read only replica.", StoreUnavailable, "replica"),
    (SCRIPTED + b"READONLY You can't write against a read only replica.", StoreUnavailable, "replica"),
    (b"-MOVED 1234 127.0.0.1:7001", StoreUnavailable, r"redis\+cluster"),
    (b"-UNBLOCKED force unblock from blocking operation", StoreUnavailable, "replica"),
    (b"-OOM command not allowed when used memory > 'maxmemory'.", StoreFull, "maxmemory"),
    (SCRIPTED + b"OOM command not allowed when used memory > 'maxmemory'.", StoreFull, "maxmemory"),
    (b"-MISCONF Redis is configured to save RDB snapshots", StoreUnavailable, "disk"),
    (SCRIPTED + b"MISCONF Errors writing to the AOF file", StoreUnavailable, "disk"),
    (b"-NOREPLICAS Not enough good replicas to write.", StoreUnavailable, "replicas"),
    (b"-NOAUTH Authentication required.", ConfigError, "password"),
    (b"-WRONGPASS invalid username-password pair or user is disabled.", ConfigError, "password"),
    (b"-NOPERM this user has no permissions to run the 'evalsha' command", ConfigError, "docs/operate/redis.md"),
    (DENIED, ConfigError, "docs/operate/redis.md"),
    (
        b"-WRONGTYPE Operation against a key holding the wrong kind of value",
        StoreError,
        "perhaps after a part of the call",
    ),
    (b"-WRONGTYPE Operation against a key called OOM x", StoreError, "perhaps after a part of the call"),
    (SCRIPTED + b"WRONGTYPE Operation against a key called -OOM x", StoreError, "perhaps after a part of the call"),
    (b"-EXECABORT Transaction discarded because of previous errors.", StoreError, "perhaps after a part of the call"),
    (b"-CROSSSLOT Keys in request don't hash to the same slot", StoreError, "perhaps after a part of the call"),
    (b"-ERR unknown command 'EVALSHA'", StoreError, "perhaps after a part of the call"),
]
AGAIN = [
    b"-LOADING Redis is loading the dataset in memory",
    b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    b"-UNKILLABLE Sorry the script already executed write commands against the dataset.",
    b"-TRYAGAIN Multiple keys request during rehashing of slot",
    b"-ASK 1234 127.0.0.1:7001",
    b"-CLUSTERDOWN The cluster is down",
    b"-CLUSTERDOWN Hash slot not served",
    b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    b"-ERR max number of clients reached",
]


def name(reply: bytes) -> str:
    return reply.decode()[1:60]


@pytest.mark.parametrize(("reply", "error", "words"), ONCE, ids=[name(row[0]) for row in ONCE])
async def test_what_the_server_answers_becomes_an_error_of_ours(reply, error, words):
    server = Refusing(reply, b"*0")
    async with server.store() as store:
        with pytest.raises(error, match=words) as caught:
            await store.jobs.enqueue([new()])
        assert type(caught.value) is error
        assert isinstance(caught.value.__cause__, redis.exceptions.RedisError)
        assert server.received == 1

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


@pytest.mark.parametrize("reply", AGAIN, ids=map(name, AGAIN))
async def test_a_server_that_is_busy_for_a_while_is_asked_again(reply):
    server = Refusing(reply, reply, b"*0")
    async with server.store() as store:
        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]

    assert server.received == 3


@pytest.mark.parametrize("reply", [AGAIN[0], AGAIN[3]], ids=map(name, [AGAIN[0], AGAIN[3]]))
async def test_a_server_that_stays_busy_is_given_up_with_nothing_written(reply):
    server = Refusing(*[reply] * 50)
    async with server.store() as store:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await store.jobs.enqueue([new()])


async def test_a_forgotten_script_is_sent_whole_once():
    server = Refusing(b"-NOSCRIPT No matching script. Please use EVAL.", b"*0")
    async with server.store() as store:
        await store.jobs.enqueue([new()])
    assert server.received == 2

    async with Refusing(b"-NOSCRIPT No matching script.", b"-ERR no").store() as store:
        with pytest.raises(StoreError, match="no"):
            await store.jobs.enqueue([new()])


async def test_a_refusal_is_not_hidden_by_what_the_server_says_of_replicas():
    demoted = (
        b"-READONLY You can't write against a read only replica.",
        b"-ERR WAIT cannot be used with replica instances.",
    )
    server = Refusing(*demoted, b"*0", b":1")
    async with server.store("?wait_replicas=1") as store:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await store.jobs.enqueue([new()])
        assert store._keyspace.connections._idle == []  # it is not asked again on this line

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


@pytest.mark.parametrize("reply", [b"-NOPERM no permissions to run the 'wait' command", b"-UNBLOCKED force unblock"])
async def test_what_is_written_and_not_waited_for_is_reported_as_stored(reply):
    async with Refusing(b"*0", reply, b"*0", b":1").store("?wait_replicas=1") as store:
        with pytest.raises(DurabilityNotMet, match="stored on the primary") as caught:
            await store.jobs.enqueue([new()])
        assert isinstance(caught.value.__cause__, redis.exceptions.ResponseError)

        await store.jobs.enqueue([new()])


@pytest.mark.parametrize(
    "login", [b"-ERR max number of clients reached", b"-LOADING Redis is loading the dataset in memory"]
)
async def test_who_is_turned_away_while_rights_are_tried_gets_an_error_of_ours(login):
    async with Refusing(login=login).store() as store:
        with pytest.raises(StoreUnavailable):
            await store._keyspace.connections.denied(("PING",))


async def test_a_login_that_is_refused_later_may_be_repaired_and_does_not_end_a_worker():
    async with Refusing(b"*0", b"-NOAUTH Authentication required.").store() as store:
        await store.jobs.count()

        with pytest.raises(StoreUnavailable, match="password"):
            await store.jobs.enqueue([new()])


async def test_a_write_without_an_answer_is_of_unknown_outcome_and_a_read_is_not():
    async with Refusing().store() as store:
        with pytest.raises(OutcomeUnknown, match="same ids"):
            await store.jobs.enqueue([new()])
        with pytest.raises(StoreUnavailable):
            await store.jobs.count()


async def test_a_socket_that_closed_before_the_request_was_sent_costs_nothing():
    server = Refusing(b"*0", b"*0")
    async with server.store() as store:
        await store.jobs.enqueue([new()])
        [idle] = store._keyspace.connections._idle
        idle.eof_received()

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


async def test_a_server_that_is_not_there_is_unavailable():
    store = RedisStore(f"redis://127.0.0.1:{servers.free_port()}/0")
    with pytest.raises(StoreUnavailable, match="address"):
        await store.open()
    with pytest.raises(StoreClosed):
        await store.jobs.count()


# -- replies of real servers


@pytest.fixture(params=SERVERS)
def own(request: pytest.FixtureRequest):
    with servers.running(str(request.param)) as server:
        yield server.url


async def test_a_real_server_says_what_the_table_says(own):
    async with client_of(own) as client, opened(own) as store:
        await client.config_set("min-replicas-to-write", 1)
        if (await client.info("server"))["redis_version"] < "7":
            await store.jobs.enqueue([new()])  # Redis 6.2 does not ask its scripts for replicas
        else:
            with pytest.raises(StoreUnavailable, match="bring the replicas back"):
                await store.jobs.enqueue([new()])
        await client.config_set("min-replicas-to-write", 0)

        await client.rename(store._keyspace.key("jobs"), "aside")
        await client.set(store._keyspace.key("jobs"), "no hash")
        with pytest.raises(StoreError, match="wrong kind"):
            await store.jobs.enqueue([new()])
        await client.rename("aside", store._keyspace.key("jobs"))

        await client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull):
            await store.jobs.enqueue([new()])
        await client.config_set("maxmemory", 0)

        [job] = await put_in(store, new())
        assert await state(store, job) is State.READY


async def test_a_server_busy_with_a_script_is_waited_for(own):
    async with client_of(own) as client, opened(own) as store, client_of(own) as other:
        await client.config_set("lua-time-limit", 10)
        stuck = asyncio.create_task(other.eval("while true do end", 0))
        async with asyncio.timeout(20):
            while True:
                try:
                    await client.ping()
                except redis.exceptions.ResponseError:  # BUSY
                    break
        waiting = asyncio.create_task(store.jobs.enqueue([new()]))
        await asyncio.sleep(0)
        await client.script_kill()
        assert [receipt.created for receipt in await waiting] == [True]
        await asyncio.wait([stuck])
        assert stuck.exception() is not None


async def test_a_server_with_too_many_clients_is_waited_for(own):
    async with client_of(own) as client, opened(own) as store:
        for idle in store._keyspace.connections._idle:
            idle.close()
        async with client_of(own) as third:
            await third.ping()
            await client.config_set("maxclients", 2)
            waiting = asyncio.create_task(store.jobs.enqueue([new()]))
            async with asyncio.timeout(20):
                while not (await client.info("stats"))["rejected_connections"]:
                    await asyncio.sleep(0)
        with contextlib.suppress(StoreUnavailable):  # the server may close the connection before its reply is read
            assert [receipt.created for receipt in await waiting] == [True]
        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


@pytest.mark.parametrize(("login", "words"), [("ox:wrong@", "password"), ("", "password")])
async def test_a_wrong_login_is_reported_at_the_start(own, login, words):
    async with client_of(own) as client:
        await client.acl_setuser("ox", enabled=True, passwords=["+hay"], keys=["*"], channels=["*"], commands=["+@all"])
        await client.acl_setuser("default", enabled=True, reset_passwords=True, passwords=["+straw"])
        with pytest.raises(ConfigError, match=words):
            await RedisStore(own.replace("://", f"://{login}")).open()


async def test_nothing_is_reported_of_replicas_where_the_short_script_wrote_nothing():
    server = Refusing(b"$-1", b":0", b"*0", b":1")
    async with server.store("?wait_replicas=1") as store:
        [receipt] = await store.jobs.enqueue([new()])

    assert receipt.created
