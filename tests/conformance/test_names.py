"""Names with anything in them come back exactly, and never mix with their neighbours."""

import pytest

from packhorse.model.effect import Publish, Put
from packhorse.model.job import Receipt, State, UniqueKey, Until
from packhorse.model.lease import Verdict
from packhorse.model.outcome import On
from packhorse.model.reason import WaitReason
from packhorse.model.worker import WorkerInfo
from tests.factories import (
    HOUR,
    MINUTE,
    Again,
    Done,
    Wait,
    drain,
    end,
    failure,
    found,
    laned,
    new,
    one,
    put_in,
    run,
    state,
    take,
)

HOSTILE = [
    "{}", "{0}", "{packhorse}", ":", "a:b", "a", "a:", ":a", "'", '"', "''", "\\", "\\\\", "%", "%s", "%%", "$1", "?1",
    "--", ";", "'; DROP TABLE jobs; --", "*", "?", "[]", "[a]", "a*", " ", "a ", " a", "  ", "..", "../..", "/", "a/b",
    "NULL", "null", "0", "-1", "1e9", "A", "é", "e\u0301", "ü", "日本語", "😀", "\u200b", "\u202e", "\u2028", "\x85",
    "\ufeff", "\U0010ffff", "_", "a_b", "a%b", "<b>", "&amp;", "#", "|", "~", "@", "=", ",", "x" * 255, "é" * 127,
]  # fmt: skip
LONG = [*HOSTILE, "y" * 512, "é" * 256]


async def test_hostile_queues_do_not_mix(store):
    jobs = [new(queue=name) for name in HOSTILE]
    await store.jobs.enqueue(jobs)

    for name, new_job in zip(HOSTILE, jobs, strict=True):
        assert [(lease.id, lease.queue) for lease in await take(store, 10, name)] == [(new_job.id, name)]
        assert [(job.id, job.queue) for job in await found(store, queue=name)] == [(new_job.id, name)]

    assert set(await store.jobs.count()) == set(HOSTILE)
    assert [queue.name for queue in await store.queues.stats()] == sorted(HOSTILE)


async def test_hostile_queues_hold_scheduled_and_ended_jobs_apart(store, clock):
    for name in HOSTILE:
        await put_in(store, new(queue=name, delay=MINUTE), new(queue=name))
        await run(store, Done(b"1"), queue=name)
    clock.turn(HOUR)

    for name in HOSTILE:
        [lease] = await take(store, 10, name)
        assert lease.queue == name


async def test_hostile_queues_are_paused_one_by_one(store):
    await store.jobs.enqueue([new(queue=name) for name in HOSTILE])
    paused = HOSTILE[::2]

    await store.queues.pause(paused)

    assert [queue.name for queue in await store.queues.stats() if queue.paused] == sorted(paused)
    leased = [lease.queue for name in HOSTILE for lease in await take(store, 1, name)]
    assert leased == HOSTILE[1::2]


@pytest.mark.parametrize(("field", "names"), [("task", HOSTILE), ("tenant", LONG)])
async def test_hostile_words_of_a_record_come_back(store, field, names):
    jobs = [new(**{"task": "work", field: name}) for name in names]
    await store.jobs.enqueue(jobs)

    for name, job in zip(names, jobs, strict=True):
        assert getattr(await one(store, job.id), field) == name
        assert [match.id for match in await found(store, **{field: name})] == [job.id]


async def test_hostile_tasks_are_released_one_by_one(store):
    jobs = await put_in(store, *(new(name) for name in HOSTILE))
    for _ in jobs:
        await run(store, Wait(WaitReason.UNROUTABLE))

    for name, job in zip(HOSTILE, jobs, strict=True):
        assert await store.jobs.release(WaitReason.UNROUTABLE, tasks=[name]) == 1
        assert [(lease.id, lease.task) for lease in await take(store)] == [(job, name)]


async def test_hostile_lanes_do_not_mix(store):
    firsts = await put_in(store, *(laned(name) for name in LONG))
    seconds = await put_in(store, *(laned(name) for name in LONG))

    assert {await state(store, job) for job in firsts} == {State.READY}
    assert {await state(store, job) for job in seconds} == {State.WAITING}
    leases = await take(store, len(LONG))
    assert [lease.lane for lease in leases] == LONG
    for lease, second in zip(leases, seconds, strict=True):
        await end(store, lease, Done())
        assert await state(store, second) is State.READY


async def test_a_lane_of_one_queue_is_not_a_lane_of_another_with_a_like_name(store):
    pairs = [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("a b", ""), ("a/b", "c"), ("a", "b/c")]
    jobs = await put_in(store, *(laned(lane or "x", queue=queue) for queue, lane in pairs))

    assert {await state(store, job) for job in jobs} == {State.READY}


@pytest.mark.parametrize("until", [Until.FINISHED, Until.STARTED, Until.WINDOW])
async def test_hostile_keys_do_not_mix(store, until):
    def unique(key: str) -> UniqueKey:
        return UniqueKey(key, until, HOUR if until is Until.WINDOW else 0)

    holders = [new(unique=unique(key)) for key in LONG]
    receipts = await store.jobs.enqueue(holders)
    assert all(receipt.created for receipt in receipts)

    twins = await store.jobs.enqueue([new(unique=unique(key)) for key in LONG])

    assert twins == [Receipt(holder.id, False) for holder in holders]
    assert [(await one(store, holder.id)).unique for holder in holders] == LONG


async def test_hostile_kinds_and_keys_of_records_do_not_mix(store):
    for kind in ("{}", "a", "a:", "'", "*", "%", "日本語"):
        await store.records.put([Put(kind, key, f"{kind} {key}".encode()) for key in LONG])

    for kind in ("{}", "a", "a:", "'", "*", "%", "日本語"):
        records = await store.records.get(kind, LONG)
        assert [(record.kind, record.key, record.value.decode()) for record in records] == [
            (kind, key, f"{kind} {key}") for key in LONG
        ]
    assert await store.records.drop("a", LONG) == len(LONG)
    assert [record.key for record in (await store.records.find("a:", limit=1000)).items] == sorted(LONG)


async def test_hostile_kinds_of_records_are_due_apart(store):
    await store.records.put([Put(kind, "key", b"1", due=1) for kind in HOSTILE])

    for kind in HOSTILE:
        assert [record.kind for record in await store.records.due(kind, 10)] == [kind]


async def test_jobs_wait_for_hostile_records_one_by_one(store):
    jobs = await put_in(store, *(new() for _ in LONG))
    for key in LONG:
        await run(store, Wait(WaitReason.SIGNAL, On("signal", key)))

    for key, job in zip(LONG, jobs, strict=True):
        await store.records.put([Put("signal", key, b"1")])
        assert await drain(store) == [job]


async def test_hostile_streams_do_not_mix(store):
    offsets = await store.streams.publish([Publish(name, name.encode(), name) for name in HOSTILE])

    assert offsets == [1] * len(HOSTILE)
    for name in HOSTILE:
        [event] = await store.streams.read(name)
        assert (event.stream, event.data.decode(), event.key) == (name, name, name)


async def test_hostile_names_of_workers_come_back(store):
    for number, name in enumerate(HOSTILE):
        ox = WorkerInfo(id=bytes([number]) * 16, name=name, release=name, queues=(name,), tasks=(name, "plain"))
        await store.fleet.beat(ox, MINUTE)

    workers = await store.fleet.workers()

    assert [worker.name for worker in workers] == sorted(HOSTILE)
    assert all(
        (worker.release, worker.queues, worker.tasks) == (worker.name, (worker.name,), (worker.name, "plain"))
        for worker in workers
    )


async def test_hostile_details_and_failures_come_back(store):
    jobs = await put_in(store, *(new() for _ in HOSTILE))
    for name in HOSTILE:
        await run(store, Wait(WaitReason.CIRCUIT, detail=name))
    assert [(await one(store, job)).detail for job in jobs] == HOSTILE
    await store.jobs.release(WaitReason.CIRCUIT)
    leases = await take(store, len(jobs))

    for lease, name in zip(leases, HOSTILE, strict=True):
        assert await end(store, lease, Again(error=failure(name, name, name))) is Verdict.WRITTEN

    for job, name in zip(jobs, HOSTILE, strict=True):
        [failed] = (await one(store, job)).failures
        assert (failed.type, failed.message, failed.traceback) == (name, name, name)


@pytest.mark.parametrize("detail", ["", "two\nlines\tand\x01more", "\x1e\x1f", "x" * 1024])
async def test_free_text_of_a_wait_may_hold_control_characters(store, detail):
    [job] = await put_in(store, new())

    await run(store, Wait(WaitReason.CIRCUIT, detail=detail))

    assert (await one(store, job)).detail == detail
