"""What only the Redis and Valkey store has to show: faults, the border, full servers, stale entries, connections."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from packhorse.errors import (
    DurabilityNotMet,
    InvalidName,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from packhorse.model.effect import Enqueue, Publish, Put
from packhorse.model.event import LIFECYCLE
from packhorse.model.job import Retention, UniqueKey
from packhorse.model.lease import Renewed, Settlement, Verdict
from packhorse.model.outcome import Again, Cancelled, Dead, Done, Held, On, Wait
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.worker import WorkerInfo
from packhorse.stores.redis.scripts import Scripts
from packhorse.stores.redis.store import RedisStore
from packhorse.testing import TurnedClock
from tests import servers
from tests.conftest import address, wipe
from tests.factories import BROKEN, HOUR, MINUTE, WORKER, ask, end, new, put_in, take
from tests.integration.keyspaces import KINDS, NONE, SERVERS, client_of, everything_stored, opened

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)

READS = """EXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN HSTRLEN HVALS LINDEX LLEN LPOS LRANGE SISMEMBER SMEMBERS TIME
XRANGE XREVRANGE ZCARD ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZSCORE"""
FAULTY = """-- part: call
-- gives: call commit
local reads, left, deciding = {}, %d, true
for word in string.gmatch('%s', '%%S+') do reads[word] = true end
function commit() deciding = false end
function call(command, ...)
  if deciding then
    left = left - 1
    if not reads[command] then error(command .. ' STANDS BEFORE THE BORDER') end
    if left == 0 then error('A FAULT ON PURPOSE') end
  end
  return redis.call(command, ...)
end
"""


def faulty(call: int) -> Scripts:
    """Scripts whose so-manieth command before the border fails, as does every write before it."""
    return Scripts(FAULTY % (call, READS.replace("\n", " ")))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=SERVERS)
def own(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server of our own, whose settings may be changed."""
    with servers.running(str(request.param)) as server:
        yield server.url


class Scene:
    """A store with jobs in every place and of every kind, and what verbs are given to work on."""

    parent = new("family", children=1, queue="other")
    waiting = new("cook", priority=6)
    cancelled = new("cook", priority=9, unique=UniqueKey("u"))

    async def build(self, store: RedisStore, clock: TurnedClock) -> None:
        child, laned = new(parent=self.parent.id, priority=1), new(lane="a", priority=2)
        rest = [new(priority=priority) for priority in (3, 4, 5)]
        behind = new(lane="a", lane_limit=1, priority=2)
        self.behind = behind.id
        self.due = new(delay=MINUTE, lane="b")
        await put_in(store, self.parent, child, laned, behind, *rest, self.waiting, self.cancelled, self.due)
        self.leases = await take(store, 6)
        await store.jobs.exchange([Settlement(lease, Held(1)) for lease in self.leases[:2]])
        await end(store, self.leases[5], Wait(WaitReason.SIGNAL, On("signal", "go")))
        self.held_back = await put_in(store, new(lane="c", queue="people"), new(delay=HOUR), new(delay=HOUR, lane="c"))
        [asking] = await take(store, 1, "people")
        await end(store, asking, Wait(WaitReason.INTERVENTION))
        await store.jobs.cancel([self.cancelled.id], keep=Retention(1, HOUR))
        await put_in(store, *(new(queue="done") for _ in range(3)))
        for lease in await take(store, 3, "done"):
            await end(store, lease, Done(b"1", Retention(1, HOUR)))
        await store.records.put([Put("kind", "old", b"1", expires=clock.now() + 1), Put("kind", "key", b"1")])
        await store.jobs.watch([self.leases[0].id], MINUTE)
        await store.queues.pause(["shut"])
        clock.turn(2 * MINUTE)

    def settlements(self) -> list[Settlement]:
        child, laned, again, waits, dead = self.leases[:5]
        effects = (
            Enqueue(new(lane="a", unique=UniqueKey("v"))),
            Publish("news", b"1"),
            Put("signal", "go", b"1", expect=0),
        )
        return [
            Settlement(child, Done(b"1"), effects),
            Settlement(laned, Cancelled(), (Put("kind", "key", None), Enqueue(new(delay=HOUR)))),
            Settlement(again, Again(0, BROKEN)),
            Settlement(waits, Held(1), (Put("kind", "held", b"1", due=1),)),
            Settlement(waits, Wait(WaitReason.CHILDREN, children=2)),
            Settlement(dead, Dead(DeadReason.FINAL, BROKEN)),
            Settlement(dead, Done(), (Put("kind", "no", b"1", expect=5),)),
        ]


Verb = Callable[[RedisStore, Scene], Awaitable[Any]]
VERBS: dict[str, Verb] = {
    "enqueue": lambda s, _: s.jobs.enqueue(
        [new(), new(lane="a"), new(delay=1), new(unique=UniqueKey("u")), new(children=1)]
    ),
    "enqueue_plain": lambda s, _: s.jobs.enqueue([new(queue="plain"), new(queue="plain")]),
    "exchange": lambda s, scene: s.jobs.exchange(scene.settlements(), ask(5)),
    "claim": lambda s, _: s.jobs.exchange((), ask(5)),
    "fire": lambda s, _: s.jobs.fire(
        [
            [Enqueue(new(lane="a")), Publish("news", b"1"), Put("signal", "go", b"1")],
            [Put("kind", "old", b"2", expect=1)],
        ]
    ),
    "enqueue_json": lambda s, _: s._keyspace.run(
        "enqueue_json", task="cook", args='{"a": 1}', options='{"key": "a", "unique": {"key": "k"}}'
    ),
    "renew": lambda s, scene: s.jobs.renew(scene.leases, MINUTE),
    "reap": lambda s, _: s.jobs.reap(10, max_lost=1),
    "release": lambda s, _: s.jobs.release(WaitReason.SIGNAL, tasks=["cook"]),
    "cancel": lambda s, scene: s.jobs.cancel([scene.parent.id, scene.behind, scene.due.id, scene.leases[1].id]),
    "replay": lambda s, scene: s.jobs.replay([scene.cancelled.id]),
    "promote": lambda s, scene: s.jobs.promote([scene.due.id, *scene.held_back]),
    "note": lambda s, scene: s.jobs.note([(scene.leases[0], b"1")]),
    "watch": lambda s, scene: s.jobs.watch([scene.leases[1].id, scene.due.id], MINUTE),
    "prune": lambda s, _: s.jobs.prune(10),
    "drop": lambda s, scene: s.jobs.drop([lease.id for lease in scene.leases] + [scene.parent.id, scene.cancelled.id]),
    "put": lambda s, _: s.records.put([Put("signal", "go", b"1"), Put("kind", "key", None), Put("kind", "old", b"2")]),
    "drop_records": lambda s, _: s.records.drop("kind", ["key", "old"]),
    "publish": lambda s, _: s.streams.publish([Publish("news", b"1"), Publish("news", b"2", "key")]),
    "pause": lambda s, _: s.queues.pause(["default"]),
    "resume": lambda s, _: s.queues.resume(["shut"]),
    "trim": lambda s, _: s.streams.trim(LIFECYCLE, 5, 100),
    "beat": lambda s, _: s.fleet.beat(WorkerInfo(id=WORKER, name="ox"), MINUTE),
}


def test_every_verb_that_writes_is_shown():
    scripts = Scripts()

    assert {name for name in scripts.names if scripts[name].writes} - VERBS.keys() == {
        "migrate",
        "keep_script",
        "repair",
    }


@pytest.mark.parametrize("kind", KINDS[:1])  # where a script stops does not depend on who runs it
@pytest.mark.parametrize("verb", VERBS)
async def test_a_fault_before_the_border_changes_nothing_and_no_write_stands_before_it(kind, tmp_path, clock, verb):
    url = address(kind, tmp_path)
    await wipe(kind, url, "")
    scene, faults = Scene(), 0
    async with opened(url, clock=clock) as store:
        await scene.build(store, clock)
    before = await everything_stored(url)
    while True:
        async with opened(url, clock=clock, scripts=faulty(faults + 1)) as store:
            try:
                await VERBS[verb](store, scene)
                break
            except StoreError as error:
                message = str(error)
        faults += 1
        assert "A FAULT ON PURPOSE" in message
        assert await everything_stored(url) == before

    assert faults or verb in ("pause", "resume", "beat", "publish")
    assert await everything_stored(url) != before


async def test_small_hashes_are_real_tables(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        await put_in(store, new(), new(lane="a"), new(lane="a"))
        await end(store, (await take(store))[0], Done())

        for name in ("jobs", "live", "ended", "lane_slots", "tries", "counts"):
            assert await client.object("encoding", store._keyspace.key(name)) == b"hashtable", name
        assert await client.object("encoding", store._keyspace.key("running")) == b"skiplist"


async def test_no_key_of_a_live_job_goes_away_by_itself(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        await Scene().build(store, clock)

        assert {await client.ttl(key) async for key in client.scan_iter()} == {-1}


async def test_all_keys_share_a_slot(kind, url, clock):
    async with opened(url, namespace="färm", clock=clock) as store:
        await Scene().build(store, clock)
        await store.jobs.exchange((), ask(5))

    tag = "{packhorse:färm}:".encode()
    assert [key for key in await everything_stored(url) if not key.startswith(tag)] == []


@pytest.mark.parametrize("name", ["a}", "{a", "a}:jobs"])
def test_a_namespace_with_braces_is_refused(name):
    with pytest.raises(InvalidName):
        RedisStore("redis://localhost", namespace=name)


async def test_a_full_server_takes_no_more_and_lets_work_go_on(own, clock):
    scene = Scene()
    async with client_of(own) as client, opened(own, clock=clock) as store:
        await client.flushdb()
        await store.migrate()
        await scene.build(store, clock)
        before = await everything_stored(own)
        await client.config_set("maxmemory", 1)
        try:
            for refused in ("enqueue", "enqueue_plain", "put", "publish", "note", "watch"):
                with pytest.raises(StoreFull):
                    await VERBS[refused](store, scene)
            assert await everything_stored(own) == before

            assert await store.jobs.renew(scene.leases[:1], MINUTE) == [Renewed.KEPT]
            answer = await store.jobs.exchange(scene.settlements(), ask(5))
            assert answer.verdicts[0] is Verdict.WRITTEN
            assert answer.leases
            for allowed in ("reap", "cancel", "replay", "promote", "release", "prune", "drop"):
                await VERBS[allowed](store, scene)
            for allowed in ("pause", "resume", "beat"):
                await VERBS[allowed](store, scene)
        finally:
            await client.config_set("maxmemory", 0)


async def test_a_server_that_may_evict_is_refused(own):
    async with client_of(own) as client:
        await client.config_set("maxmemory", 1 << 30)
        await client.config_set("maxmemory-policy", "allkeys-lru")
        store = RedisStore(own)
        try:
            with pytest.raises(DurabilityNotMet, match="noeviction"):
                await store.open()
        finally:
            await client.config_set("maxmemory-policy", "noeviction")
            await client.config_set("maxmemory", 0)


async def test_a_replica_refuses_writes_until_it_is_promoted(own, clock):
    async with client_of(own) as client, opened(own, clock=clock) as store:
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="replica"):
            await store.jobs.enqueue([new()])

        await client.execute_command("REPLICAOF", "NO", "ONE")

        assert [receipt.created for receipt in await store.jobs.enqueue([new()])] == [True]


async def test_scripts_that_the_server_forgot_are_sent_again(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        for _ in range(3):
            await client.script_flush()
            [job] = await put_in(store, new())
            await client.script_flush()
            [lease] = await take(store)
            assert lease.id == job
            await client.script_flush()
            assert await end(store, lease, Done()) is Verdict.WRITTEN


async def test_a_step_that_was_changed_is_refused(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as client:
        await client.hset(store._keyspace.key("layout"), "0001_places", "other")

        with pytest.raises(SchemaMismatch):
            await store.migrate()
