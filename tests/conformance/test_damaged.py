"""A record that cannot be read costs only itself."""

from collections.abc import AsyncIterator

import pytest

from packhorse.model.effect import Publish
from packhorse.model.job import KEEP_DEAD, State, failure
from packhorse.model.lease import Settlement, Verdict
from packhorse.model.page import Filter
from packhorse.model.reason import DeadReason, WaitReason
from packhorse.model.worker import WorkerInfo
from tests.damage import Damage, damage_of
from tests.factories import DEAD, MINUTE, Again, Dead, Wait, ask, new, one, put_in, run, take

UNDECODABLE = Dead(DeadReason.UNDECODABLE, failure("UndecodablePayload", "it cannot be opened"), KEEP_DEAD)


@pytest.fixture
async def damage(kind, url, store) -> AsyncIterator[Damage]:
    async with damage_of(kind, url, store) as made:
        yield made


async def test_a_job_whose_record_is_damaged_is_leased_and_so_are_its_neighbours(store, damage, kind):
    first, bad, last = await put_in(store, new(), new(), new())
    await damage.record(bad)
    asked = ask(10)

    leases = (await store.jobs.exchange((), asked)).leases
    again = (await store.jobs.exchange((), asked)).leases

    assert [lease.id for lease in leases] == [lease.id for lease in again] == [first, bad, last]
    assert [bool(lease.fault) for lease in leases] == [False, kind != "postgres", False]
    assert [lease.fault for lease in again] == [lease.fault for lease in leases]
    settled = await store.jobs.exchange([Settlement(lease, UNDECODABLE) for lease in leases])
    assert settled.verdicts == (Verdict.WRITTEN,) * 3
    assert (await one(store, bad)).reason is DeadReason.UNDECODABLE


async def test_of_a_damaged_record_what_can_be_read_is_answered(store, damage):
    bad, good = await put_in(store, new(tenant="acme", priority=3), new(payload=b"[1]"))
    await damage.record(bad)

    found, other = await store.jobs.get([bad, good])

    assert (found.id, found.state, found.queue, found.priority, found.tenant) == (
        bad, State.READY, "default", 3, "acme"
    )  # fmt: skip
    assert (other.id, other.payload) == (good, b"[1]")


async def test_a_reason_that_is_not_known_is_left_out(store, damage):
    dead, waiting = await put_in(store, new(priority=1), new(priority=2, payload=b"[1]"))
    await run(store, DEAD)
    await run(store, Wait(WaitReason.UNROUTABLE, detail="work"))
    await damage.dead_reason(dead)
    await damage.waiting_reason(waiting)

    ended, parked = await store.jobs.get([dead, waiting])

    assert (ended.state, ended.reason, ended.attempt) == (State.DEAD, None, 1)
    assert [found.message for found in ended.failures] == ["it broke"]
    assert (parked.state, parked.reason, parked.detail, parked.payload) == (State.WAITING, None, "work", b"[1]")
    assert {job.id for job in (await store.jobs.find(Filter())).items} == {dead, waiting}


async def test_a_failure_that_cannot_be_read_is_answered_as_such(store, damage, clock):
    bad, good = await put_in(store, new(payload=b"[1]"), new())
    for _ in range(2):
        await run(store, Again(error=failure("Broken", "oops")))
    await damage.failure(bad)

    found, other = await store.jobs.get([bad, good])

    assert [(one.type, one.attempt, one.at) for one in found.failures] == [("UndecodablePayload", 1, clock.now())]
    assert [one.type for one in other.failures] == ["Broken"]
    assert (found.state, found.payload) == (State.READY, b"[1]")


async def test_damaged_records_are_found_and_counted_like_others(store, damage):
    bad, good = await put_in(store, new(), new())
    await damage.record(bad)

    assert [job.id for job in (await store.jobs.find(Filter())).items] == [bad, good]
    assert [job.id for job in (await store.jobs.find(Filter(state=State.READY, queue="default"))).items] == [bad, good]
    assert dict((await store.jobs.count())["default"]) == {State.READY: 2}
    assert [stats.counts for stats in await store.queues.stats()] == [{State.READY: 2}]


async def test_a_damaged_job_can_be_cancelled_replayed_and_dropped(store, damage):
    [bad] = await put_in(store, new())
    await damage.record(bad)

    assert await store.jobs.cancel([bad]) == [State.CANCELLED]
    assert await store.jobs.replay([bad]) == [True]
    assert [lease.id for lease in await take(store)] == [bad]
    assert await store.jobs.drop([bad]) == [True]
    assert await store.jobs.get([bad]) == [None]


async def test_an_entry_that_is_damaged_does_not_hide_the_next(store, damage):
    await store.streams.publish([Publish("news", b"%d" % n) for n in range(3)])
    await damage.event("news", 2)

    events = await store.streams.read("news")

    assert [event.offset for event in events] == [1, 2, 3]
    assert [event.data for event in events][::2] == [b"0", b"2"]
    assert isinstance(events[1].data, bytes)


async def test_a_worker_whose_last_beat_cannot_be_read_is_left_out(store, damage, clock):
    def named(name: str) -> WorkerInfo:
        return WorkerInfo(id=name.encode().ljust(16), name=name, host="here", pid=1, started=clock.now())

    await store.fleet.beat(named("first"), MINUTE)
    await damage.beats()
    await store.fleet.beat(named("second"), MINUTE)

    assert [worker.name for worker in await store.fleet.workers()] == ["second"]


async def test_a_job_whose_queue_has_a_damaged_name_is_counted_found_cancelled_and_dropped(store, damage):
    bad, good = await put_in(store, new(queue="broken", priority=1), new())
    shown = await damage.queue(bad)

    assert {name: dict(counts) for name, counts in (await store.jobs.count()).items()} == {
        shown: {State.READY: 1}, "default": {State.READY: 1},
    }  # fmt: skip
    assert [stats.name for stats in await store.queues.stats()] == sorted([shown, "default"])
    assert {(job.id, job.queue) for job in (await store.jobs.find(Filter())).items} == {(bad, shown), (good, "default")}
    assert await store.jobs.cancel([bad]) == [State.CANCELLED]
    assert (await one(store, bad)).state is State.CANCELLED
    assert await store.jobs.drop([bad]) == [True]
    assert [lease.id for lease in await take(store)] == [good]
