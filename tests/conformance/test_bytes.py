"""How many bytes one call carries."""

import pytest
from msgspec.structs import replace

from packhorse.errors import PayloadTooLarge, TooManyBytes
from packhorse.model import limits
from packhorse.model.effect import Publish, Put
from packhorse.model.job import State, UniqueKey, Until
from packhorse.model.lease import ClaimRequest, Exchange, Share
from tests.factories import MINUTE, SECOND, WORKER, Done, ask, end, laned, new, one, put_in, state, take

KIB = 1024
EMPTY = len(new().headers)


def sized(size: int, **options):
    """A job with so many bytes of payload and headers."""
    return new(payload=b"x" * (size - EMPTY), **options)


async def asked(store, request: ClaimRequest) -> Exchange:
    return await store.jobs.exchange((), request)


async def test_more_bytes_than_the_cap_are_refused_and_none_is_stored(store):
    with pytest.raises(TooManyBytes, match="67,108,864"):
        await put_in(store, *[new(payload=b"x" * limits.PAYLOAD)] * 65)

    assert await store.jobs.count() == {}


async def test_events_records_and_moves_of_more_bytes_than_the_cap_are_refused_and_none_is_stored(store):
    events = [Publish("news", b"x" * limits.VALUE)] * 65
    puts = [Put("kind", f"{number}", b"x" * limits.VALUE) for number in range(65)]

    for call in (store.streams.publish(events), store.records.put(puts), store.jobs.fire([events[:40], puts[:25]])):
        with pytest.raises(TooManyBytes, match="67,108,864"):
            await call

    assert await store.streams.read("news") == []
    assert (await store.records.find("kind")).items == ()


async def test_progress_of_more_bytes_than_its_cap_is_refused_and_none_is_kept(store):
    await put_in(store, new(), new())
    small, large = await take(store)

    with pytest.raises(PayloadTooLarge, match="16,384"):
        await store.jobs.note([(small, b"1"), (large, b"1" * (limits.PROGRESS + 1))])

    assert [job.progress for job in await store.jobs.get([small.id, large.id])] == [None, None]


async def test_payloads_and_headers_of_all_leases_together_fit_in_the_bytes_of_the_ask_but_one_job_is_always_leased(
    store,
):
    jobs = await put_in(store, sized(9 * KIB), *[sized(KIB) for _ in range(5)], sized(9 * KIB))
    request = ask(max_bytes=4 * KIB)

    leased = [
        [lease.id for lease in (await asked(store, replace(request, token=bytes(16 - 1) + b"%d" % n))).leases]
        for n in range(4)
    ]

    assert leased == [jobs[:1], jobs[1:5], jobs[5:6], jobs[6:]]


async def test_bytes_of_headers_count(store):
    jobs = await put_in(store, *[new(payload=b"x", headers=b"h" * 1023) for _ in range(3)])

    assert [lease.id for lease in (await asked(store, ask(max_bytes=2 * KIB))).leases] == jobs[:2]


async def test_a_job_that_does_not_fit_stays_ready_in_its_place_and_none_behind_it_is_leased(store):
    small, large, other, *rest = await put_in(store, sized(KIB), sized(4 * KIB), sized(KIB), sized(KIB))

    first = await asked(store, ask(max_bytes=4 * KIB))

    assert ([lease.id for lease in first.leases], first.more) == ([small], True)
    assert {(await one(store, job)).state for job in (large, other, *rest)} == {State.READY}
    assert (await store.jobs.count())["default"]["ready"] == 3
    later = await take(store)
    assert [(lease.id, lease.attempt) for lease in later] == [(job, 1) for job in (large, other, *rest)]


async def test_the_bytes_of_an_ask_are_for_all_its_queues(store):
    first = await put_in(store, *[sized(KIB, queue="first") for _ in range(3)])
    second = await put_in(store, *[sized(KIB, queue="second") for _ in range(3)])

    both = ClaimRequest(WORKER, (Share("first", 2), Share("second", 2)), max_bytes=3 * KIB)
    answer = await asked(store, both)

    assert {lease.id for lease in answer.leases} == {*first[:2], second[0]}
    assert answer.more
    rest = await take(store, 10, "first", "second")
    assert {lease.id for lease in rest} == {first[2], *second[1:]}


async def test_jobs_that_come_due_are_weighed_like_others(store, clock):
    due = await put_in(store, *[sized(KIB, delay=MINUTE) for _ in range(3)])
    clock.turn(MINUTE)
    ready = await put_in(store, *[sized(KIB) for _ in range(2)])

    first = await asked(store, ask(max_bytes=2 * KIB))
    second = await asked(store, ask(max_bytes=2 * KIB))

    assert [lease.id for lease in (*first.leases, *second.leases)] == [*due, ready[0]]
    counts = (await store.jobs.count())["default"]
    assert (counts.get("scheduled", 0), counts["ready"], counts["running"]) == (0, 1, 4)


async def test_many_jobs_are_weighed_beyond_those_that_are_read_together(store):
    jobs = await put_in(store, *[sized(KIB) for _ in range(100)])

    answer = await asked(store, ask(100, max_bytes=70 * KIB))

    assert ([lease.id for lease in answer.leases], answer.more) == (jobs[:70], True)
    assert [lease.id for lease in await take(store, 100)] == jobs[70:]


async def test_a_job_whose_unique_key_is_free_when_it_starts_keeps_the_key_if_it_does_not_fit(store):
    _, second = await put_in(store, sized(KIB), sized(4 * KIB, unique=UniqueKey("key", Until.STARTED)))

    await asked(store, ask(max_bytes=4 * KIB))

    assert await put_in(store, new(unique=UniqueKey("key", Until.STARTED))) == [second]


async def test_the_same_ask_again_for_fewer_bytes_makes_leases_that_do_not_fit_ready_again_uncharged(store):
    jobs = await put_in(store, *[sized(KIB) for _ in range(4)])
    request = ask()
    first = await asked(store, request)
    assert len(first.leases) == 4

    again = await asked(store, replace(request, again=True, max_bytes=2 * KIB))

    assert [(lease.id, lease.attempt, lease.token) for lease in again.leases] == [
        (job, 1, request.token) for job in jobs[:2]
    ]
    assert again.more
    counts = (await store.jobs.count())["default"]
    assert (counts["ready"], counts["running"]) == (2, 2)
    rest = await take(store)
    assert [(lease.id, lease.attempt, lease.lost) for lease in rest] == [(job, 1, 0) for job in jobs[2:]]


async def test_a_lease_that_was_made_ready_again_is_over(store):
    _, other = await put_in(store, sized(KIB), sized(KIB))
    request = ask()
    _, lease = (await asked(store, request)).leases
    await asked(store, replace(request, again=True, max_bytes=KIB))

    await end(store, lease, Done())

    assert await state(store, other) is State.READY
    assert [lease.id for lease in await take(store)] == [other]


async def test_a_cancelled_job_whose_lease_does_not_fit_ends_as_cancelled(store):
    _, job = await put_in(store, sized(KIB), sized(KIB))
    request = ask()
    await asked(store, request)
    await store.jobs.cancel([job])

    await asked(store, replace(request, again=True, max_bytes=KIB))

    assert await state(store, job) is State.CANCELLED


async def test_a_job_of_a_lane_whose_lease_does_not_fit_keeps_its_slot(store):
    _, job, behind = await put_in(store, sized(KIB), laned(payload=b"x" * KIB), laned())
    request = ask()
    assert [lease.id for lease in (await asked(store, request)).leases][1] == job

    await asked(store, replace(request, again=True, max_bytes=KIB))

    assert [lease.id for lease in await take(store)] == [job]
    assert await state(store, behind) is State.WAITING


async def test_leases_that_do_not_fit_are_not_charged_with_a_loss_when_the_first_runs_out(store, clock):
    first, second = await put_in(store, sized(KIB), sized(KIB))
    request = ask(lease=10 * SECOND)
    await asked(store, request)
    await asked(store, replace(request, again=True, max_bytes=KIB))
    clock.turn(11 * SECOND)

    assert [lost.id for lost in await store.jobs.reap(10)] == [first]
    assert {lease.id: lease.lost for lease in await take(store)} == {first: 1, second: 0}
