"""Servers fail over and slots move while jobs flow: every job that survives ends, none is settled twice.

What was acknowledged and is lost with a primary is counted and printed (``pytest -s``).
"""

import asyncio
import signal

import pytest
from redis.crc import key_slot

from packhorse.errors import DurabilityNotMet, StoreUnavailable
from packhorse.model.outcome import Done
from packhorse.stores.contract import Topic
from packhorse.stores.redis.store import RedisStore
from tests.factories import end, new, put_in, take
from tests.integration.fleets import SERVICE, Watched, ask, clustered, follows, info, move_slot, port_of, until, watched
from tests.integration.flowing import Plan
from tests.integration.keyspaces import KINDS, NONE, SERVERS, client_of, opened
from tests.integration.torn import LONG

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

SLOT = key_slot(b"{packhorse:packhorse}")
ROUNDS = 10 if LONG else 1


@pytest.fixture(params=KINDS if LONG else KINDS[:1])
def kind(request: pytest.FixtureRequest) -> str:
    """The server under sentinels."""
    return str(request.param)


@pytest.fixture(params=KINDS if LONG else SERVERS[-1:])
def member(request: pytest.FixtureRequest) -> str:
    """The server of which a cluster is made."""
    return str(request.param)


async def is_primary(server) -> bool:
    return (await info(server, "replication"))["role"] == "master"


async def any_primary(replicas) -> bool:
    return any([await is_primary(replica) for replica in replicas])


async def test_jobs_go_on_when_sentinels_promote_a_replica_that_lags(kind, tmp_path):
    for number in range(ROUNDS):
        home = tmp_path / str(number)
        home.mkdir()
        async with watched(kind, home) as fleet:

            async def fail_over(flow: Plan, fleet: Watched = fleet) -> None:
                fleet.replica.process.send_signal(signal.SIGSTOP)
                await ask(fleet.primary, "CLIENT", "KILL", "TYPE", "replica")
                await flow.more(20)  # acknowledged by a primary whose replica does not hear of it
                fleet.primary.kill()
                fleet.replica.process.send_signal(signal.SIGCONT)
                await until(is_primary, "the replica to be promoted", fleet.replica)

            account = await Plan(fleet.url).through(fail_over)
        assert account.lost > 0  # asynchronous replication: this is what wait_replicas is for


async def test_with_wait_replicas_a_failover_loses_nothing_that_was_acknowledged(kind, tmp_path):
    async with watched(kind, tmp_path, replicas=2) as fleet:

        async def fail_over(flow: Plan) -> None:
            fleet.primary.kill()
            await until(any_primary, "one of the replicas to be promoted", fleet.replicas)

        account = await Plan(f"{fleet.url}?wait_replicas=1").through(fail_over)

    assert account.lost == 0


async def test_an_orderly_handover_loses_nothing(kind, tmp_path):
    async with watched(kind, tmp_path) as fleet:

        async def hand_over(flow: Plan) -> None:
            [sentinel, *_] = fleet.sentinels
            async with client_of(f"redis://127.0.0.1:{sentinel}") as client:
                await client.execute_command("SENTINEL", "FAILOVER", SERVICE)
            await until(is_primary, "the replica to be promoted", fleet.replica)
            await flow.more(20)

        account = await Plan(fleet.url).through(hand_over)

    assert account.refusals.total() < 200


async def test_sentinels_that_know_no_such_service_or_are_not_there_are_named(kind, tmp_path):
    async with watched(kind, tmp_path) as fleet:
        with pytest.raises(StoreUnavailable, match=r"3 sentinels .* the service 'stable'"):
            await RedisStore(fleet.url.replace("/barn", "/stable")).open()
        gone = fleet.url.replace("://", "://127.0.0.1:1,")
        async with opened(gone) as store:  # the first of them does not answer, the second does
            await put_in(store, new())


async def test_replicas_that_do_not_answer_in_time_are_reported(kind, tmp_path):
    async with (
        watched(kind, tmp_path) as fleet,
        opened(f"{fleet.primary.url}?wait_replicas=1&wait_timeout=50ms") as store,
    ):
        await ask(fleet.replica, "REPLICAOF", "NO", "ONE")
        job = new()
        with pytest.raises(DurabilityNotMet, match="0 of 1 replicas"):
            await store.jobs.enqueue([job])
        [lease] = await take(store)  # it is there all the same, and workers do not wait
        assert lease.id == job.id
        await end(store, lease, Done())
        await ask(fleet.replica, "REPLICAOF", "127.0.0.1", port_of(fleet.primary))
        await until(follows, "the replica to follow again", fleet.replica)

        async def repeated() -> bool:
            [receipt] = await store.jobs.enqueue([job])
            return not receipt.created

        await until(repeated, "the same call to be met")


async def test_jobs_go_on_when_a_cluster_replaces_the_node_of_their_slot(member):
    for _ in range(ROUNDS):
        async with clustered(member, SLOT) as cluster:

            async def kill(flow: Plan, cluster=cluster) -> None:
                cluster.holder.kill()
                await until(is_primary, "the replica to take over", cluster.replica)

            await Plan(cluster.url).through(kill)


async def test_an_orderly_failover_is_not_hidden_from_who_waits_for_replicas(member):
    async with clustered(member, SLOT) as cluster:

        async def hand_over(flow: Plan) -> None:
            await ask(cluster.replica, "CLUSTER", "FAILOVER")
            await until(is_primary, "the replica to take over", cluster.replica)
            await flow.more(20)

        account = await Plan(f"{cluster.url}?wait_replicas=1").through(hand_over)

    assert account.lost == 0


async def test_a_slot_moves_to_another_node_under_jobs_that_flow(member):
    async with clustered(member, SLOT) as cluster:
        [target, *_] = [node for node in cluster.nodes if node is not cluster.holder]

        async def move(flow: Plan) -> None:
            assert len(await move_slot(cluster, SLOT, target, pause=0.05)) > 15

        account = await Plan(cluster.url).through(move)

        assert account.lost == 0
        assert [node for node in cluster.nodes if await ask(node, "DBSIZE")] == [target]


async def test_listeners_follow_to_the_new_primary(member):
    async with clustered(member, SLOT) as cluster, opened(cluster.url) as store:
        await put_in(store, new())
        assert len(await take(store)) == 1
        rung = asyncio.Event()

        async def listen() -> None:
            async for _ in store.wakes(Topic.WORK):
                rung.set()

        listener = asyncio.create_task(listen())
        await until(_listens, "the listener to wait there", cluster.holder)
        cluster.holder.kill()
        await until(is_primary, "the replica to take over", cluster.replica)
        await until(_listens, "the listener to wait here", cluster.replica)
        rung.clear()

        async def enqueued() -> bool:
            await put_in(store, new())
            return True

        await until(enqueued, "the store to be back")
        await asyncio.wait_for(rung.wait(), 20)
        listener.cancel()
        await asyncio.wait([listener])


async def _listens(server) -> bool:
    return "blpop" in str(await ask(server, "CLIENT", "LIST"))
