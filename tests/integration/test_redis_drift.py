"""Fields, entries and keys deleted by hand: the next rounds put right what can be, and nothing stumbles over the rest."""

import asyncio

import pytest

from packhorse.errors import StoreError
from packhorse.model.event import LIFECYCLE
from packhorse.model.ids import id_text
from packhorse.model.job import LEASE_US, State
from packhorse.model.lease import Renewed
from packhorse.model.outcome import Again, Done, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores.redis.store import RedisStore
from packhorse.telemetry.emit import Telemetry
from packhorse.testing import TurnedClock
from tests.conformance.invariants import check
from tests.damage import RedisDamage
from tests.engine.factories import EventName, EventRecorder, Tasks, worker
from tests.factories import BROKEN, HOUR, MINUTE, end, new, put_in, state, take
from tests.integration.keyspaces import KINDS, NONE, client_of, everything_stored, opened
from tests.integration.test_redis import Scene, faulty

if not KINDS:
    pytest.skip(NONE, allow_module_level=True)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(kind, url, clock):
    async with opened(url, clock=clock) as made:
        yield made


@pytest.fixture
async def by_hand(kind, url):
    async with client_of(url) as client:
        yield client


async def repaired(store: RedisStore) -> list[str]:
    """What the next rounds of upkeep say; afterwards there is nothing more to say."""
    found: list[str] = []
    for _ in range(3):
        store._repair._next_sample = store._repair._next_search = 0
        found += await store.maintain()
    store._repair._next_sample = store._repair._next_search = 0
    assert await store.maintain() == []
    return found


def key(store: RedisStore, kind: str, name: str | None = None) -> str:
    return store._keyspace.key(kind, name)


async def rest_runs(store: RedisStore, clock: TurnedClock) -> None:
    """All that is left can be run to its end."""
    await check(store)
    clock.turn(HOUR)
    await store.jobs.reap(100)
    while leases := await take(store, 100, "default", "other"):
        for lease in leases:
            await end(store, lease, Done())
    await check(store)


async def test_a_sound_store_is_left_alone(store, url, clock):
    scene = Scene()
    await scene.build(store, clock)
    before = await everything_stored(url)

    assert await repaired(store) == []
    assert await everything_stored(url) == before


async def test_a_job_that_has_ended_and_stands_in_a_line_is_not_leased_again(store, by_hand, clock):
    ended, other = await put_in(store, new(), new())
    [lease] = await take(store, 1)
    await end(store, lease, Done())
    await by_hand.lpush(key(store, "ready", "default\x1f10"), ended)

    assert [lease.id for lease in await take(store)] == [other]
    assert await state(store, ended) is State.DONE
    await repaired(store)
    await rest_runs(store, clock)


async def test_names_that_are_not_utf8_do_not_keep_the_store_from_being_put_right(store, by_hand, clock):
    bad, good = await put_in(store, new(queue="broken"), new())
    [_, laned] = await put_in(store, new(lane="a"), new(lane="a"))
    await RedisDamage(by_hand).queue(bad)
    slots = key(store, "lane_slots")
    for turn, count in (await by_hand.hgetall(slots)).items():
        await by_hand.hset(slots, turn + b"\xe9", count)
    await by_hand.lrem(key(store, "ready", "default\x1f10"), 1, good)

    found = await repaired(store)

    assert f"job {id_text(good)} missing from ready" in found
    assert not [each for each in found if id_text(bad) in each or id_text(laned) in each]
    assert {lease.id for lease in await take(store)} >= {good}


async def test_a_record_that_is_gone_takes_its_places_with_it(store, by_hand, clock):
    jobs = await put_in(store, *(new() for _ in range(3)), new(lane="a"), new(lane="a"), new(delay=MINUTE), new())
    leases = await take(store, 4)
    running, ended, again, laned = [lease.id for lease in leases]
    await end(store, leases[1], Done())
    await end(store, leases[2], Again(0, BROKEN))
    await by_hand.hdel(key(store, "jobs"), running, ended, again, laned, jobs[5])

    found = await repaired(store)

    assert {f"job {id_text(job)} without a record" for job in (running, ended, again, laned)} <= set(found)
    assert [await state(store, job) for job in jobs] == [None, None, None, None, State.READY, None, State.READY]
    [stats] = await store.queues.stats()
    assert (stats.total_enqueued, stats.total_ended[State.DONE]) == (7, 1)
    assert await store.jobs.renew(leases[:1], MINUTE) == [Renewed.LOST]
    clock.turn(MINUTE)
    [lease] = await take(store, 1)  # what was due without a record is passed over
    await end(store, lease, Done())
    await rest_runs(store, clock)
    assert await state(store, jobs[4]) is State.DONE  # the lane went on


async def test_a_lease_that_is_gone_runs_out_like_any_other(store, by_hand, clock):
    [job] = await put_in(store, new(lane="a"))
    [lease] = await take(store)
    await by_hand.zrem(key(store, "running"), job)

    assert await repaired(store) == [f"job {id_text(job)} without a lease"]
    assert await store.jobs.reap(10) == []  # its worker may be alive
    assert await store.jobs.renew([lease], LEASE_US) == [Renewed.KEPT]
    clock.turn(LEASE_US + 1)
    assert [lost.id for lost in await store.jobs.reap(10)] == [job]
    await rest_runs(store, clock)
    assert await state(store, job) is State.DONE


@pytest.mark.parametrize("both", [False, True], ids=["row", "row and lease"])
@pytest.mark.parametrize("lane", [None, "a"])
async def test_a_job_whose_row_is_gone_runs_again(store, by_hand, clock, both, lane):
    job, behind = await put_in(store, new(lane=lane), new(lane=lane))
    await take(store, 1)
    await by_hand.hdel(key(store, "live"), job)
    if both:
        await by_hand.zrem(key(store, "running"), job)

    assert await repaired(store)
    await rest_runs(store, clock)
    assert [await state(store, each) for each in (job, behind)] == [State.DONE, State.DONE]


async def test_a_reaped_lease_without_a_row_makes_its_job_ready(store, by_hand, clock):
    [job] = await put_in(store, new())
    await take(store)
    await by_hand.hdel(key(store, "live"), job)
    clock.turn(HOUR)

    assert await store.jobs.reap(10) == []
    assert await state(store, job) is State.READY
    await rest_runs(store, clock)


async def test_entries_of_lines_and_of_due_that_are_gone_come_back(store, by_hand, clock):
    fresh, tried, later, laned, behind = await put_in(
        store, new(), new(), new(delay=MINUTE), new(lane="a"), new(lane="a")
    )
    for lease in await take(store, 2):
        if lease.id == tried:
            await end(store, lease, Again(0, BROKEN))
        else:
            await store.jobs.exchange([])
    [fresh] = await put_in(store, new())
    await by_hand.delete(key(store, "ready", "default\x1f10"), key(store, "scheduled", "default"))
    await by_hand.delete(key(store, "lane", "default\x1fa"), key(store, "waiting", "default"))

    found = await repaired(store)

    for job, wrong in (
        (fresh, "missing from ready"),
        (tried, "missing from ready"),
        (later, "missing from scheduled"),
        (laned, "missing from ready"),
    ):
        assert f"job {id_text(job)} {wrong}" in found
    assert f"job {id_text(behind)} missing from waiting" in found
    await rest_runs(store, clock)
    assert {await state(store, job) for job in (fresh, tried, later, laned, behind)} == {State.DONE}


async def test_a_job_that_waits_and_a_count_that_is_wrong_are_put_right(store, by_hand, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Wait(WaitReason.UNROUTABLE))
    await by_hand.delete(key(store, "waiting", "default"))
    await by_hand.hset(key(store, "counts"), "default\x1fready", 7)

    found = await repaired(store)

    assert found == [f"job {id_text(job)} missing from waiting", "counts"]
    assert await store.jobs.release(WaitReason.UNROUTABLE) == 1
    await rest_runs(store, clock)


async def test_a_fault_while_repairing_changes_nothing(kind, url, clock):
    async with opened(url, clock=clock) as store, client_of(url) as by_hand:
        [job] = await put_in(store, new())
        await take(store)
        await by_hand.hdel(key(store, "live"), job)
        await store.close()
    before, faults = await everything_stored(url), 0
    while True:
        async with opened(url, clock=clock, scripts=faulty(faults + 1)) as store:
            try:
                await store.maintain()
                break
            except StoreError:
                faults += 1
        assert await everything_stored(url) == before
    assert faults > 3


async def test_a_worker_says_what_was_put_right(kind, url):
    async with opened(url) as store, client_of(url) as by_hand:
        telemetry = Telemetry()
        recorder, tasks = EventRecorder(telemetry), Tasks()
        tasks.task(name="work")(asyncio.sleep)
        [job] = await put_in(store, new("stranger", queue="other"))
        await by_hand.delete(key(store, "ready", "other\x1f10"))
        async with worker(store, tasks, telemetry):
            [reported] = await recorder.until(EventName.MAINTAINED)
        assert f"job {id_text(job)} missing from ready" in reported["detail"]
        assert await state(store, job) is State.READY


async def test_writes_go_on_after_the_heads_of_streams_were_deleted(store, by_hand, clock):
    await put_in(store, new())
    await put_in(store, new())
    await by_hand.delete(key(store, "stream_heads"))

    await put_in(store, new())
    for lease in await take(store):
        await end(store, lease, Done())

    offsets = [event.offset for event in await store.streams.read(LIFECYCLE)]
    assert offsets == list(range(1, len(offsets) + 1))
    await check(store)


async def test_retention_groups_do_not_share_a_list_after_their_numbers_were_deleted(store, by_hand, clock):
    await put_in(store, *(new() for _ in range(3)))
    for lease in await take(store, 3):
        await end(store, lease, Done())
    await by_hand.delete(key(store, "serials"))
    await put_in(store, *(new(queue="other") for _ in range(3)))
    for lease in await take(store, 3, "other"):
        await end(store, lease, Done())

    numbers = [row.split()[0] for row in await by_hand.hvals(key(store, "retention_groups"))]
    assert len(set(numbers)) == len(numbers) == 2
    await check(store)


async def test_large_jobs_that_are_due_come_some_at_a_time(store, clock):
    large = b'"%s"' % (b"x" * 1_000_000)
    jobs = await put_in(store, *(new(payload=large, delay=MINUTE) for _ in range(25)))
    clock.turn(HOUR)
    await put_in(store, new("other"))

    assert 0 < [await state(store, job) for job in jobs].count(State.READY) < 25
    await rest_runs(store, clock)
    assert {await state(store, job) for job in jobs} == {State.DONE}
