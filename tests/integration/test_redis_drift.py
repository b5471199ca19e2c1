"""Fields, entries and keys deleted by hand: the next rounds put right what can be, and nothing stumbles over the rest."""

import asyncio

import pytest

from packhorse.errors import StoreError
from packhorse.model.event import LIFECYCLE
from packhorse.model.ids import id_text
from packhorse.model.job import LEASE, State
from packhorse.model.lease import Renewed
from packhorse.model.outcome import Again, Done, Wait
from packhorse.model.reason import WaitReason
from packhorse.stores.redis.store import RedisStore
from packhorse.telemetry.emit import Telemetry
from packhorse.testing.clock import TurnedClock
from tests.conformance.invariants import check
from tests.engine.making import Heard, Name, Tasks, worker
from tests.integration.keyspaces import KINDS, NONE, client_of, everything_stored, opened
from tests.integration.test_redis import Scene, faulty
from tests.making import BROKEN, HOUR, MINUTE, end, new, put_in, state, take

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


async def mended(store: RedisStore) -> list[str]:
    """What the next rounds of upkeep say; afterwards there is nothing more to say."""
    said: list[str] = []
    for _ in range(3):
        store._mending._next = store._mending._search = 0
        said += await store.maintain()
    store._mending._next = store._mending._search = 0
    assert await store.maintain() == []
    return said


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

    assert await mended(store) == []
    assert await everything_stored(url) == before


async def test_a_record_that_is_gone_takes_its_places_with_it(store, by_hand, clock):
    jobs = await put_in(store, *(new() for _ in range(3)), new(lane="a"), new(lane="a"), new(delay=MINUTE), new())
    leases = await take(store, 4)
    running, ended, again, laned = [lease.id for lease in leases]
    await end(store, leases[1], Done())
    await end(store, leases[2], Again(0, BROKEN))
    await by_hand.hdel(key(store, "jobs"), running, ended, again, laned, jobs[5])

    said = await mended(store)

    assert {f"job {id_text(job)} without a record" for job in (running, ended, again, laned)} <= set(said)
    assert [await state(store, job) for job in jobs] == [None, None, None, None, State.READY, None, State.READY]
    assert await store.jobs.renew(leases[:1], MINUTE) == [Renewed.LOST]
    clock.turn(MINUTE)
    [lease] = await take(store, 1)  # what was due without a record is passed over
    await end(store, lease, Done())
    await rest_runs(store, clock)
    assert await state(store, jobs[4]) is State.DONE  # the lane went on


async def test_a_lease_that_is_gone_runs_out_like_any_other(store, by_hand, clock):
    [job] = await put_in(store, new(lane="a"))
    [lease] = await take(store)
    await by_hand.zrem(key(store, "leases"), job)

    assert await mended(store) == [f"job {id_text(job)} without a lease"]
    assert await store.jobs.reap(10) == []  # its worker may be alive
    assert await store.jobs.renew([lease], LEASE) == [Renewed.KEPT]
    clock.turn(LEASE + 1)
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
        await by_hand.zrem(key(store, "leases"), job)

    assert await mended(store)
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
    await by_hand.delete(key(store, "ready", "default\x1f10"), key(store, "due", "default"))
    await by_hand.delete(key(store, "lane", "default\x1fa"), key(store, "waits", "default"))

    said = await mended(store)

    for job, wrong in ((fresh, "in no line"), (tried, "in no line"), (later, "not in due"), (laned, "in no line")):
        assert f"job {id_text(job)} {wrong}" in said
    assert f"job {id_text(behind)} not among those that wait" in said
    await rest_runs(store, clock)
    assert {await state(store, job) for job in (fresh, tried, later, laned, behind)} == {State.DONE}


async def test_a_job_that_waits_and_a_count_that_is_wrong_are_put_right(store, by_hand, clock):
    [job] = await put_in(store, new())
    [lease] = await take(store)
    await end(store, lease, Wait(WaitReason.UNROUTABLE))
    await by_hand.delete(key(store, "waits", "default"))
    await by_hand.hset(key(store, "counts"), "default\x1fready", 7)

    said = await mended(store)

    assert said == [f"job {id_text(job)} not among those that wait", "counts"]
    assert await store.jobs.release(WaitReason.UNROUTABLE) == 1
    await rest_runs(store, clock)


async def test_a_fault_while_mending_changes_nothing(kind, url, clock):
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
        heard, tasks = Heard(telemetry), Tasks()
        tasks.task(name="work")(asyncio.sleep)
        [job] = await put_in(store, new("stranger", queue="other"))
        await by_hand.delete(key(store, "ready", "other\x1f10"))
        async with worker(store, tasks, telemetry):
            [told] = await heard.until(Name.TIDIED)
        assert f"job {id_text(job)} in no line" in told["detail"]
        assert await state(store, job) is State.READY


async def test_writes_go_on_after_the_heads_of_streams_were_deleted(store, by_hand, clock):
    await put_in(store, new())
    await put_in(store, new())
    await by_hand.delete(key(store, "heads"))

    await put_in(store, new())
    for lease in await take(store):
        await end(store, lease, Done())

    offsets = [event.offset for event in await store.streams.read(LIFECYCLE)]
    assert offsets == list(range(1, len(offsets) + 1))
    await check(store)


async def test_shelves_do_not_meet_after_their_numbers_were_deleted(store, by_hand, clock):
    await put_in(store, *(new() for _ in range(3)))
    for lease in await take(store, 3):
        await end(store, lease, Done())
    await by_hand.delete(key(store, "serials"))
    await put_in(store, *(new(queue="other") for _ in range(3)))
    for lease in await take(store, 3, "other"):
        await end(store, lease, Done())

    shelves = [row.split()[0] for row in await by_hand.hvals(key(store, "shelves"))]
    assert len(set(shelves)) == len(shelves) == 2
    await check(store)


async def test_large_jobs_that_are_due_come_some_at_a_time(store, clock):
    large = b'"%s"' % (b"x" * 1_000_000)
    jobs = await put_in(store, *(new(payload=large, delay=MINUTE) for _ in range(25)))
    clock.turn(HOUR)
    await put_in(store, new("other"))

    assert 0 < [await state(store, job) for job in jobs].count(State.READY) < 25
    await rest_runs(store, clock)
    assert {await state(store, job) for job in jobs} == {State.DONE}
